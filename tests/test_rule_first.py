"""A rule comes before its number: found from git's history, and refused where it does not."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
import rule_first

from lnattn.errors import ResultError
from lnattn_book.page import places

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


class Repository:
    """A tiny repository with one claim, whose threshold and number are committed as told."""

    def __init__(self, root):
        self.root = root
        (root / rule_first.FROZEN_CLAIMS).mkdir(parents=True)
        (root / "book").mkdir()
        self.git("init", "--quiet")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        command = ["git", "-C", self.root, *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(
        self,
        threshold: float,
        number: float,
        words: str = "at least {least}",
        decide: str = "",
        file: str = "k01.py",
    ) -> str:
        rule = {"id": "K1", "rule": {"least": threshold}, "words": words}
        (self.root / rule_first.LIST).write_text(json.dumps([rule]))
        record = {"claim": "K1", "model": "m", "chapter": "c", "verdict": "holds"}
        frozen = {"records": [{**record, "values": {"a": number}}]}
        (self.root / rule_first.FROZEN_CLAIMS / "m.json").write_text(json.dumps(frozen))
        if decide:
            module = self.root / rule_first.MODULES / file
            module.parent.mkdir(parents=True, exist_ok=True)
            module.write_text(decide)
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message", "-")
        return self.git("rev-parse", "--short=8", "HEAD")


@pytest.fixture
def small(tmp_path):
    return Repository(tmp_path)


def test_a_rule_and_then_its_number_is_accepted_and_both_at_once_is_refused(small):
    base = small.commit(0.5, 1)
    small.commit(0.6, 1)
    small.commit(0.6, 2)
    small.commit(0.6, 3, words="{least} or more")  # other words, no other threshold
    assert rule_first.mixed(small.root, base) == []
    both = small.commit(0.7, 4)
    small.commit(0.7, 5)
    (said,) = rule_first.mixed(small.root, base)
    assert said.startswith(f"{both} changes the rule of K1 together with its frozen result")
    assert rule_first.mixed(small.root, both) == []


def test_conditions_and_a_number_at_once_are_refused_however_they_are_written(small):
    decide = "def decide(measures, context):\n    return above(measures['a'], context['least'])\n"
    base = small.commit(0.5, 1)
    small.commit(0.5, 2, decide=decide)  # the module is new: nothing was changed
    small.commit(0.5, 3, decide=decide.replace("    return", "    # a remark\n    return"))
    small.commit(0.5, 3, decide=decide.replace("above", "below"))
    small.commit(0.5, 4)
    assert rule_first.mixed(small.root, base) == []
    both = small.commit(0.5, 5, decide=decide)
    (said,) = rule_first.mixed(small.root, base)
    assert said.startswith(f"{both} changes the rule of K1 together with its frozen result")


def test_conditions_over_seeds_are_conditions_too(small):
    """Two claims in one module: of the one that is decided otherwise, and no other."""
    module = (
        "def decide_a(measures, context):\n    return above(measures['a'], 1)\n"
        "def decide_b(measures, context):\n    return above(measures['b'], 1)\n"
        "a = Rule('K1', measures_of, decide_a)\nb = Rule('K2', measures_of, decide_b)\n"
    )
    base = small.commit(0.5, 1, decide=module, file="by_seed.py")
    small.commit(0.5, 2, decide=module.replace("['b'], 1", "['b'], 2"), file="by_seed.py")
    assert rule_first.mixed(small.root, base) == []
    both = small.commit(0.5, 3, decide=module.replace("['a'], 1", "['a'], 2"), file="by_seed.py")
    (said,) = rule_first.mixed(small.root, base)
    assert said.startswith(f"{both} changes the rule of K1 together with its frozen result")


def test_a_function_a_claim_has_its_conditions_and_its_words_are_none(small):
    """A claim that moves into its source's module, and is then decided otherwise with a number."""
    module = (
        "@rule('K1', null=None)\n"
        "def k1(m, at):\n    'Words.'\n    return above(m.a, at.least)\n"
        "k2 = Rule('K2', lambda m, at: above(m.b, at.least), effect=Effect('b'))\n"
    )
    base = small.commit(0.5, 1, decide=module, file="kamoda.py")
    small.commit(0.5, 2, decide=module.replace("Words", "Other words"), file="kamoda.py")
    small.commit(0.5, 3, decide=module.replace("m.b", "m.c"), file="kamoda.py")  # of K2 alone
    assert rule_first.mixed(small.root, base) == []
    both = small.commit(0.5, 4, decide=module.replace("above(m.a", "below(m.a"), file="kamoda.py")
    (said,) = rule_first.mixed(small.root, base)
    assert said.startswith(f"{both} changes the rule of K1 together with its frozen result")


def test_a_copy_without_the_history_says_so(small):
    small.commit(0.5, 1)
    with pytest.raises(ResultError, match="history"):
        rule_first.mixed(small.root, "0123abcd")


ROOT = places.repository()


# An archive or a shallow clone has no commits to look through; a whole clone, as CI's, is checked.
@pytest.mark.skipif(not rule_first.has_history(ROOT), reason="a copy without git's whole history")
def test_no_commit_of_this_repository_changes_a_threshold_with_its_number():
    assert rule_first.mixed(ROOT) == []
