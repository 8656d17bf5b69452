"""Rule before number: `python tools/rule_first.py` reads git's history.

It refuses every commit after `BASE` in which the thresholds of a claim change together with its
frozen result, or its conditions: the function `decide` of its module, or what a `Rule` over seeds
decides by, compared by what they do and not by how they are written.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lnattn.errors import ResultError
from lnattn_book.page.places import FROZEN_CLAIMS, repository

LIST = Path("book", "claims.yml")
#: Where a claim's conditions stand, a module a claim.
MODULES = Path("src", "lnattn_book", "claims")
#: Claims judged over seeds: conditions of several, each named in its `Rule`.
OVER_SEEDS = MODULES / "by_seed.py"
#: The last commit that was made without this check.
BASE = "123c0bd7a7"
#: Commits that did both all the same, and what is to be said for each; the claims page says it.
EXCEPTED = {
    "177af1d9b3": "what counts as trained for N5 and N6 stood in the experiment's README since "
    "bc9e6347, before the runs; the list of claims was brought in line with their result",
}
#: What decides in an entry of the list of claims.
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
    return _rules_of(git(root, "show", f"{commit}:{LIST.as_posix()}"))


@cache  # most commits change no list, and to read one takes a tenth of a second
def _rules_of(text: str) -> dict[str, dict[str, Any]]:
    listed = yaml.load(text, yaml.CSafeLoader) or []
    for entry in listed:
        if "judged" in entry:
            entry["judged"] = {key: entry["judged"].get(key) for key in DECIDES}
    return {entry["id"]: entry for entry in listed}


def conditions(root: Path, commit: str, module: str) -> dict[str, str]:
    """By claim, what decides about it in a module of claims at a commit."""
    text = git(root, "show", f"{commit}:{module}")
    if Path(module) == OVER_SEEDS:
        return _conditions_over_seeds(text)
    stem = Path(module).stem
    decide = _functions_of(text).get("decide")
    return {f"{stem[0].upper()}{int(stem[1:])}": decide} if decide and stem[1:].isdigit() else {}


@cache
def _functions_of(text: str) -> dict[str, str]:
    functions = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    return {node.name: ast.dump(node) for node in functions}


def _conditions_over_seeds(text: str) -> dict[str, str]:
    """Those of `Rule("D9", measure, decide, …)`; one that another module decides is read there."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    rules = (call for call in calls if ast.unparse(call.func) == "Rule" and len(call.args) > 2)
    functions = _functions_of(text)
    named = {ast.literal_eval(rule.args[0]): ast.unparse(rule.args[2]) for rule in rules}
    return {claim: functions[decide] for claim, decide in named.items() if decide in functions}


def conditions_changed(root: Path, commit: str) -> set[str]:
    """Claims that had conditions before a commit, and have other ones after it."""
    listed = git(root, "diff", "--name-only", f"{commit}^", commit, "--", MODULES.as_posix())
    changed = set()
    for module in listed.split():
        after = conditions(root, commit, module)
        before = conditions(root, f"{commit}^", module)
        changed |= {claim for claim, decide in before.items() if after.get(claim) != decide}
    return changed


def results_at(root: Path, commit: str) -> dict[Any, Any]:
    """By claim, model and chapter, what is frozen in a commit."""
    results: dict[Any, Any] = {}
    for line in git(root, "ls-tree", commit, f"{FROZEN_CLAIMS}/").splitlines():
        blob = line.split()[2]
        results |= _results_of(root, blob)
    return results


@cache
def _results_of(root: Path, blob: str) -> dict[Any, Any]:
    records = json.loads(git(root, "cat-file", "blob", blob)).get("records", ())
    return {
        (record.get("claim") or record["id"], record["model"], record["chapter"]): {
            part: record.get(part) for part in RESULT
        }
        for record in records
    }


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
        if not rules:
            continue
        was = results_at(root, f"{commit}^")
        now = results_at(root, commit)
        numbers = {key[0] for key, result in now.items() if was.get(key) != result}
        said += [
            f"{commit[:8]} changes the rule of {claim} together with its frozen result: "
            "commit the rule first, then what it gives"
            for claim in sorted(rules & numbers)
        ]
    return said


def main() -> int:
    """Check the commits; the exit status."""
    complaints = mixed(repository())
    print("\n".join(complaints) or "no commit changes a threshold together with its result")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
