"""Rule before number: `python tools/rule_first.py` reads git's history.

It refuses every commit after `BASE` in which the thresholds of a claim change together with its
frozen result, or its conditions: the function that its `rule` or `Rule` makes a claim, compared by
what it does and not by how it is written. Until 28 November 2026 a claim was a module of its own,
whose function was `decide`; it may move in a commit that changes no result.
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
#: Where claims' conditions stand.
MODULES = Path("src", "lnattn_book", "claims")
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
    return _conditions_of(git(root, "show", f"{commit}:{module}"), Path(module).stem)


@cache
def _conditions_of(text: str, stem: str) -> dict[str, str]:
    nodes = ast.parse(text).body
    functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    rules = {}
    if "decide" in functions and stem[1:].isdigit():  # a module a claim, k05 of K5
        rules[f"{stem[0].upper()}{int(stem[1:])}"] = _what_it_does(functions["decide"])
    for function in functions.values():
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "rule":
                rules[ast.literal_eval(decorator.args[0])] = _what_it_does(function)
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        if (
            ast.unparse(call.func) == "Rule"
            and call.args
            and isinstance(call.args[0], ast.Constant)
        ):
            # Rule("K1", lambda m, at: …), and before that Rule("D9", measure, decide).
            named = [functions.get(ast.unparse(argument)) for argument in call.args[1:]]
            decides = [node for node in call.args if isinstance(node, ast.Lambda)] or named[1:2]
            for node in filter(None, decides):
                rules[ast.literal_eval(call.args[0])] = _what_it_does(node)
    return rules


def _what_it_does(node: ast.FunctionDef | ast.Lambda) -> str:
    """The body of a function, without what says it in words."""
    body = node.body if isinstance(node.body, list) else [node.body]
    told = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return "; ".join(ast.dump(statement) for statement in body[told:])


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
