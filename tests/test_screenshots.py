"""The README's pictures: each exists in light and in dark colours, and is small."""

from __future__ import annotations

import re

import pytest
from PIL import Image, ImageStat
from screenshots import LARGEST, SHOTS, THEMES
from site_pages import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
#: A picture that follows the reader's theme, as code hosts show it.
PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*'
    r'<img alt="([^"]+)" src="([^"]+)" width="\d+">\s*</picture>'
)


@pytest.mark.parametrize("shot", SHOTS, ids=lambda shot: shot.name)
def test_a_picture_exists_in_both_themes_and_is_small(shot):
    shown = []
    for theme in THEMES:
        path = shot.path(theme)
        assert path.stat().st_size <= LARGEST
        with Image.open(path) as picture:
            scale = picture.width / shot.width
            assert (picture.width, picture.height) == (scale * shot.width, scale * shot.height)
            assert scale in (1, 2)
            shown.append(ImageStat.Stat(picture.convert("L")).mean[0])
    light, dark = shown
    assert light > 180 > 90 > dark, "the themes are exchanged, or one is missing"


def test_the_readme_shows_every_picture_with_its_words_and_no_other():
    found = {light: (dark, words) for dark, words, light in PICTURE.findall(README)}
    expected = {
        shot.path("light").relative_to(ROOT).as_posix(): shot.path("dark")
        .relative_to(ROOT)
        .as_posix()
        for shot in SHOTS
    }
    assert {light: dark for light, (dark, _) in found.items()} == expected
    assert len({words for _, words in found.values()}) == len(SHOTS)
    named = set(re.findall(r"book/images/[\w.-]+", README))
    assert named == {*expected, *expected.values()}
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "book/images").glob("*.png")}
    assert files == named, "a picture that nothing shows"


def test_the_readme_says_how_the_pictures_are_made():
    assert "make screenshots" in README
    assert "python tests/screenshots.py" in (ROOT / "Makefile").read_text().replace(
        "$(PY)", "python"
    )
