"""Rule before number: since which commits a claim's rule and its frozen number are what they are.

`python tools/rule_first.py` writes them to `data/results/claims/commits.json`. `--check` refuses
every commit after `BASE` in which the thresholds of a claim change together with its frozen result,
or its conditions: the function `decide` of its module, compared by what it does and not by how it
is written.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from lnattn.errors import ResultError
from lnattn.storage import write_json
from lnattn_book.claims.frozen import alike
from lnattn_book.places import FROZEN_CLAIMS, repository

LIST = Path("book", "claims.yml")
COMMITS = FROZEN_CLAIMS / "commits.json"
#: Where a claim's conditions stand, a module a claim.
MODULES = Path("src", "lnattn_book", "claims")
#: The last commit that was made without this check.
BASE = "123c0bd7a7"
#: Commits that did both all the same, and what is to be said for each; the claims page says it.
EXCEPTED = {
    "177af1d9b3": "what counts as trained for N5 and N6 stood in the experiment's README since "
    "bc9e6347, before the runs; the list of claims was brought in line with their result",
}
#: The parts of a rule in the list of claims, and what the page calls them.
PARTS = {"rule": "thresholds", "judged": "conditions", "words": "words", "grid": "grid"}
THRESHOLDS = ("rule", "judged", "grid")
#: What decides in `judged`; the rest of it are texts, which may be worded better at any time.
DECIDES = ("takes", "holds", "leaves", "absent", "needs", "met_by")
#: What a run gives; the rest of a record is made of its rule, or says where it stands.
RESULT = ("verdict", "values", "estimate", "interval", "null", "n", "leaves")


def git(root: Path, *words: str | Path) -> str:
    """What git answers; '' where it refuses, such as for what a commit does not hold."""
    command = ["git", "-C", str(root), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def has_history(root: Path) -> bool:
    """Whether `root` is a clone with its whole history."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return False
    return git(root, "rev-parse", "--is-shallow-repository") == "false"


def rules_at(root: Path, commit: str) -> dict[str, dict[str, Any]]:
    """By claim, what the list said of it in a commit."""
    listed = yaml.load(git(root, "show", f"{commit}:{LIST.as_posix()}"), yaml.CSafeLoader) or []
    for entry in listed:
        if "judged" in entry:
            entry["judged"] = {key: entry["judged"].get(key) for key in DECIDES}
    return {entry["id"]: entry for entry in listed}


def decides(root: Path, commit: str, module: str) -> str:
    """What `decide` does in a claim's module at a commit; '' where there is none."""
    tree = ast.parse(git(root, "show", f"{commit}:{module}"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return next((ast.dump(node) for node in functions if node.name == "decide"), "")


def conditions_changed(root: Path, commit: str) -> set[str]:
    """Claims that had conditions before a commit, and have other ones after it."""
    listed = git(root, "diff", "--name-only", f"{commit}^", commit, "--", MODULES.as_posix())
    changed = set()
    for module in listed.split():
        stem = Path(module).stem
        before = decides(root, f"{commit}^", module)
        if stem[1:].isdigit() and before not in ("", decides(root, commit, module)):
            changed.add(f"{stem[0].upper()}{int(stem[1:])}")
    return changed


def results_at(root: Path, commit: str) -> dict[Any, Any]:
    """By claim, model and chapter, what is frozen in a commit."""
    results = {}
    for name in git(root, "ls-tree", "--name-only", commit, f"{FROZEN_CLAIMS}/").split():
        for record in json.loads(git(root, "show", f"{commit}:{name}")).get("records", ()):
            key = record.get("claim") or record["id"], record["model"], record["chapter"]
            results[key] = {part: record.get(part) for part in RESULT}
    return results


def age(states: Sequence[Mapping[Any, Any]], same: Callable[[Any, Any], bool]) -> dict[Any, int]:
    """For each key of the first state, the newest: through how many older ones its value stays."""

    def runs(key: Any, value: Any) -> int:
        return sum(
            1 for _ in takewhile(lambda state: key in state and same(state[key], value), states)
        )

    return {key: runs(key, value) - 1 for key, value in states[0].items()} if states else {}


def same_number(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether two frozen results have one verdict, and alike values where both have them."""
    was = old["values"] or {}
    now = new["values"] or {}
    both = was.keys() & now.keys()
    return old["verdict"] == new["verdict"] and all(alike(was[x], now[x]) for x in both)


def commits(root: Path, head: str = "HEAD") -> dict[str, Any]:
    """By claim, the commit since which each of `PARTS` and the oldest frozen number stand.

    Each as 'hash date'; `first`: whether thresholds and conditions are older than that number;
    `at`: the last commit that was looked at.
    """
    paths = (LIST, FROZEN_CLAIMS.as_posix() + "/*.json", f":!{COMMITS.as_posix()}")
    log = git(root, "log", "--format=%h %as", "--abbrev=8", head, "--", *paths).splitlines()
    hashes = [line.split()[0] for line in log]
    rules = [rules_at(root, sha) for sha in hashes]
    oldest: dict[str, int] = {}
    for (claim, *_), back in age([results_at(root, sha) for sha in hashes], same_number).items():
        oldest[claim] = max(back, oldest.get(claim, 0))
    dates: dict[str, dict[str, Any]] = {claim: {} for claim in rules[0] if claim in oldest}
    for part, name in PARTS.items():
        states = [{claim: entry.get(part) for claim, entry in state.items()} for state in rules]
        backs = age(states, lambda old, new: bool(old == new))
        for claim, of_claim in dates.items():
            if rules[0][claim].get(part) is not None:
                of_claim[name] = log[backs[claim]]
            if part in ("rule", "judged"):
                of_claim["first"] = of_claim.get("first", True) and backs[claim] > oldest[claim]
    said = {claim: {**of_claim, "number": log[oldest[claim]]} for claim, of_claim in dates.items()}
    return {"at": log[0], "claims": said}


def mixed(root: Path, base: str = BASE) -> list[str]:
    """Each claim whose rule and frozen result one commit after `base` changes, in words."""
    if not git(root, "cat-file", "-t", base):
        raise ResultError(f"commit {base} is not here; the check needs git's whole history.")
    said = []
    places = (LIST, MODULES.as_posix())
    for commit in git(root, "rev-list", "--no-merges", f"{base}..HEAD", "--", *places).split():
        if commit[:10] in EXCEPTED:
            continue
        old = rules_at(root, f"{commit}^")
        new = rules_at(root, commit)
        rules = {c for c in new if any(old.get(c, {}).get(x) != new[c].get(x) for x in THRESHOLDS)}
        rules |= conditions_changed(root, commit)
        was = results_at(root, f"{commit}^")
        now = results_at(root, commit)
        numbers = {key[0] for key, result in now.items() if was.get(key) != result}
        said += [
            f"{commit[:8]} changes the rule of {claim} together with its frozen result: "
            "commit the rule first, then what it gives"
            for claim in sorted(rules & numbers)
        ]
    return said


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or check the commits; the exit status."""
    parser = argparse.ArgumentParser(prog="python tools/rule_first.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="refuse rules changed with numbers")
    root = repository()
    if parser.parse_args(arguments).check:
        complaints = mixed(root)
        print("\n".join(complaints) or "no commit changes a threshold together with its result")
        return 1 if complaints else 0
    write_json(root / COMMITS, commits(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
