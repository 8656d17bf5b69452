"""The icons that the site uses, and no others.

The theme brings Font Awesome whole: two thousand icons in three fonts (300 kB), each with a rule in
the style sheet that every page waits for. A book uses some twenty. After a build, the fonts are cut
down to those and put into the style sheet itself, which saves the reader's browser a journey; the
rules of all others are taken out. Left whole, the three fonts alone are more than the 200 kB that
the explorer's first view may have.

Font Awesome Free's fonts are under the SIL Open Font License, its icons under CC BY 4.0, its code
under the MIT licence; the style sheet keeps its notice.
"""

from __future__ import annotations

import base64
import io
import logging as python_logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fontTools import subset
from fontTools.ttLib import TTFont
from sphinx.application import Sphinx
from sphinx.util import logging

STYLES = Path("_static", "styles", "pydata-sphinx-theme.css")
FONTS = Path("_static", "vendor", "fontawesome", "webfonts")
#: Names of classes that ask for a font; icons of the solid one may be named without it.
FACES = {
    "fa-solid-900": (),
    "fa-regular-400": ("fa-regular", "far"),
    "fa-brands-400": ("fa-brands", "fab"),
}
_RULE = re.compile(r'((?:\.fa-[\w-]+:{1,2}before,?)+)\{content:"\\([0-9a-f]+)"\}')
_NAME = re.compile(r"\.(fa-[\w-]+):")
# Rules of the theme name characters too, often through a variable: escaped, or as they are.
_ESCAPED, _PRIVATE = re.compile(r"\\([0-9a-fA-F]{4,5})\b"), re.compile("[\ue000-\uf8ff]")
_FACE = re.compile(r"@font-face\{[^}]*?/(fa-[a-z]+-\d+)\.woff2[^}]*\}")
_SOURCE = re.compile(r"src:[^;}]*")
_CLASS, _ICON = re.compile(r'class="([^"]*)"'), re.compile(r"\bfa-[\w-]+")
_say = logging.getLogger(__name__)
# It tells every table that it cuts; its warnings are still heard.
python_logging.getLogger("fontTools").setLevel(python_logging.WARNING)


def names_in(site: Path) -> set[str]:
    """The classes of the site's pages, and whatever its scripts have that looks like an icon's."""
    pages = (path.read_text(encoding="utf-8") for path in site.rglob("*.html"))
    classes = {name for page in pages for value in _CLASS.findall(page) for name in value.split()}
    scripts = [path for path in (site / "_static").rglob("*.js") if "mathjax" not in path.parts]
    texts = (path.read_text(encoding="utf-8") for path in scripts)
    return classes | {name for text in texts for name in _ICON.findall(text)}


def only_used(styles: str, names: set[str]) -> str:
    """The style sheet without the rules of icons that are not among these names."""

    def kept(rule: re.Match[str]) -> str:
        selectors = [
            part for part in rule[1].split(",") if set(_NAME.findall(part)) <= names and part
        ]
        return f'{",".join(selectors)}{{content:"\\{rule[2]}"}}' if selectors else ""

    return _RULE.sub(kept, styles)


def characters(styles: str) -> set[int]:
    """The code points that a style sheet may show as icons."""
    escaped = {int(code, 16) for code in _ESCAPED.findall(styles)}
    return escaped | {ord(character) for character in _PRIVATE.findall(styles)}


def smaller_font(path: Path, codes: Iterable[int]) -> bytes:
    """A font with these characters only, as WOFF; b'' where it has none of them."""
    # The time in the file would be that of the build, and no two builds the same.
    font = TTFont(path, recalcTimestamp=False)
    present = sorted(set(codes) & font.getBestCmap().keys())
    if not present:
        return b""
    options = subset.Options(layout_features=[], hinting=False, notdef_outline=True)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=present)
    cutter.subset(font)
    font.flavor = "woff"
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


def lighten(site: Path) -> int:
    """Cut the icons of a built site down to those in use; returns the bytes that were saved.

    A theme whose style sheet or fonts are made otherwise is left as it is, and the build says so.
    """
    path, fonts = site / STYLES, site / FONTS
    if not path.is_file() or not all((fonts / f"{name}.ttf").is_file() for name in FACES):
        _say.info("icons: this theme has no Font Awesome where it is expected; left as it is")
        return 0
    before = path.stat().st_size + sum(file.stat().st_size for file in fonts.iterdir())
    names = names_in(site)
    styles = only_used(path.read_text(encoding="utf-8"), names)
    others = "".join(
        file.read_text(encoding="utf-8") for file in (site / "_static").rglob("*.css")
        if file != path
    )  # fmt: skip
    codes = characters(styles + others)

    def embedded(face: re.Match[str]) -> str:
        asked = FACES[face[1]]
        font = b"" if asked and not names & set(asked) else smaller_font(
            fonts / f"{face[1]}.ttf", codes
        )  # fmt: skip
        data = base64.b64encode(font).decode("ascii")
        source = f'src:url(data:font/woff;base64,{data}) format("woff")'
        return _SOURCE.sub(source, face[0]) if font else ""

    styles = _FACE.sub(embedded, styles)
    path.write_text(styles, encoding="utf-8")
    for file in fonts.iterdir():
        file.unlink()
    fonts.rmdir()
    return before - path.stat().st_size


def when_finished(app: Sphinx, error: Exception | None) -> None:
    """Sphinx's event `build-finished`."""
    if error is None and app.builder.format == "html":
        lighten(Path(app.outdir))


def setup(app: Sphinx) -> dict[str, Any]:
    # After pages without use are gone, and before `shrink` takes the fonts that it reads.
    app.connect("build-finished", when_finished, priority=870)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
