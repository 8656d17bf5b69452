"""Make what is published: `python -m booksite.publish` (what `make publish` calls).

Two editions in one site, `_build/site`: GPT-2's at the root, the embedded model's in `embedded/`.
GPT-2 comes from the cache or the hub. Before its edition is built, GPT-2 must give the scores that
the paper's authors printed (`python -m lnattn_book verify gpt2`), and all its studies are frozen
into `_build/frozen/gpt2`. Where GPT-2 cannot be had, the embedded edition is published alone, and
its front page says why. An edition that holds less than the last one (`booksite.extent`) is not
published. Last, the rotary models that the build fetched are frozen beside GPT-2.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from booksite.editions import Edition, assemble
from booksite.extent import is_whole
from booksite.settings import BUILD, Folders
from booksite.terminal import say
from lnattn.errors import LnattnError, ResultError
from lnattn.models import hub
from lnattn.models.choice import FALLBACK, PREFERRED, Choice, default_model
from lnattn.storage import sha256_of_file
from lnattn_book.page.names import ROTARY
from lnattn_book.page.places import repository

#: SHA-256 of model.safetensors of GPT-2 small at the pinned commit. Not fetched when this was
#: written; it is what several independent public projects record for that commit.
GPT2_SHA256 = "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707"
EMBEDDED_FOLDER = "embedded"


def publish(root: Path, output: Path | None = None) -> int:
    """Build the editions and put them together; returns the exit status (0: published).

    output: where GPT-2's edition, its frozen studies and the site go, by default `root/_build`.
    The embedded edition is built where `make book` builds it.
    """
    output = output or root / "_build"
    begun = time.monotonic()
    os.environ.pop("LNATTN_MODEL", None)  # which models are published is not a setting
    choice = default_model()
    say(f"publishing {choice}")
    note = ""
    editions = []
    if choice.name == FALLBACK:
        note = (
            f"Every chapter of this copy ran on {FALLBACK}, the small model that comes with the "
            f"book. The edition on GPT-2 could not be made when it was published ({choice.why})."
        )
    else:
        note = unlike_gpt2()
        if note:
            say(f"lnattn verify {PREFERRED} is left out: {note}")
        elif status := lnattn("verify", PREFERRED):
            say("the weights do not give what the paper's authors printed; nothing is published")
            return status
        if status := lnattn("freeze", PREFERRED, "--out", str(output / "frozen" / PREFERRED)):
            return status
        if status := build(root, choice, output / PREFERRED):
            return status
        editions.append(Edition("GPT-2", Folders(output / PREFERRED / BUILD).html))
    folder = EMBEDDED_FOLDER if editions else ""
    if status := build(root, Choice(FALLBACK, "the embedded model"), root, folder):
        return status
    editions.append(Edition(FALLBACK, Folders(root / BUILD).html, folder))
    if not all(is_whole(root, edition.model, edition.site) for edition in editions):
        return 1
    site = assemble(output / "site", editions, note)
    freeze_rotary(output / "frozen")
    names = " and ".join(edition.model for edition in editions)
    say(f"published in {time.monotonic() - begun:.0f} s: {names}, in {site}")
    return 0


def freeze_rotary(folder: Path) -> None:
    """Freeze the rotary models of the hub that are at hand; one that is not is missed.

    Their pairs are counted in the sample that ships with the book: a workflow has no time for more.
    """
    for name in ROTARY:
        if hub.missing_files(hub.PINNED[name]):
            say(f"{name} is not frozen: neither the cache nor the hub has it")
        elif lnattn("freeze", name, "--only", "rotary", "--out", str(folder / name)):
            say(f"{name} is not frozen: the reason is above")


def unlike_gpt2() -> str:
    """Why the cached weights are not those of GPT-2, as a sentence; '' where they are.

    Only another hub than Hugging Face's own (HF_ENDPOINT: a mirror, or the stand-in of the tests)
    may serve others: from the real one, they are a `ResultError`.
    """
    folder = hub.snapshot(hub.PINNED[PREFERRED])
    digest = sha256_of_file(folder / "model.safetensors") if folder else "none"
    if digest == GPT2_SHA256:
        return ""
    endpoint = os.environ.get("HF_ENDPOINT")
    if not endpoint:
        raise ResultError(
            f"the weights of {PREFERRED} at the pinned commit have SHA-256 {digest[:12]}…, where "
            f"GPT-2's have {GPT2_SHA256[:12]}…; delete them from the cache and fetch them again."
        )
    return (
        f"The weights that were served as {PREFERRED} are not GPT-2's (SHA-256 {digest[:12]}…): no "
        "number of this copy is a result."
    )


def lnattn(*words: str) -> int:
    """Run a command with the book's studies; the exit status."""
    begun = time.monotonic()
    say(f"lnattn_book {' '.join(words[:2])}")
    command = [sys.executable, "-m", "lnattn_book", *words]
    status = subprocess.run(command, check=False).returncode
    say(f"lnattn_book {' '.join(words[:2])}: {time.monotonic() - begun:.0f} s")
    return status


def build(root: Path, choice: Choice, output: Path, folder: str = "") -> int:
    """Build one edition in a process of its own, below `output`; the exit status."""
    site = os.environ.get("LNATTN_SITE_URL", "").strip().rstrip("/")
    settings: Mapping[str, str] = {
        "LNATTN_MODEL": choice.name,
        "LNATTN_MODEL_WHY": choice.why,
        "LNATTN_SITE_URL": f"{site}/{folder}".rstrip("/") if site else "",
    }
    command = [sys.executable, "-m", "booksite.build", "--strict"]
    command += ["--root", str(root), "--output", str(output)]
    return subprocess.run(command, env={**os.environ, **settings}, check=False).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Publish the repository that holds this package; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m booksite.publish", description=__doc__)
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="other than _build")
    options = parser.parse_args(arguments)
    try:
        return publish(repository(), options.output and options.output.resolve())
    except LnattnError as error:
        print(f"[book] {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
