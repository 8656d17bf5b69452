"""What a page loads is what the book uses, in the order in which a reader needs it.

The theme's style sheets, of Bootstrap and of icons mostly, are 560 kB, of which no page uses three
quarters, and its font of icons has 1,400 of which a dozen are shown. Both are cut to what stands on
the pages when all of them are written. Scripts wait until the page is shown, the tools' own first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import tinycss2
from sphinx.application import Sphinx
from tinycss2.ast import Node

#: The theme draws its icons twice, with a font and with this script of 1.5 MB.
_ICONS = Path("scripts", "fontawesome.js")
_FONTS = Path("vendor", "fontawesome", "webfonts")
#: Classes that scripts put together begin so: Bootstrap's hints have their side in theirs.
_MADE_BY_SCRIPTS = ("bs-tooltip-", "bs-popover-")
#: Folders of `_static` without a class or an identifier of a page: MathJax brings its own styles.
_APART = {"mathjax", "locales"}
#: So begin scripts that only hand over numbers and tokens.
_DATA = "lnattnExplorer.receive"
_WORD = re.compile(r"[A-Za-z_][\w-]*")
#: Scripts that those after them need at once: the settings, into which each page puts its name.
_AT_ONCE = "documentation_options.js"


# ---- Style sheets --------------------------------------------------------------------------------


def words_of(site: Path) -> set[str]:
    """Whatever could be the name of a class or an identifier on a page, or in a script of one."""
    static = site / "_static"
    scripts = (
        script
        for script in static.rglob("*.js")
        if not _APART & set(script.relative_to(static).parts)
    )
    words: set[str] = set()
    for file in (*site.rglob("*.html"), *scripts):
        text = file.read_text("utf-8")
        if not text.startswith(_DATA):
            words.update(_WORD.findall(text))
    return words


def cut(sheet: str, words: set[str]) -> str:
    """A style sheet without the rules whose selectors name a class or an identifier not in `words`.

    >>> cut("p, .seen {color: red} @media print {.unseen {color: red}}", {"seen"})
    'p,.seen{color: red}'
    """
    return "".join(_used(_rules(tinycss2.parse_stylesheet(sheet, True, True)), words))


def _rules(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes; a sheet that cannot be read is an error, not a sheet without that part."""
    for node in nodes:
        if node.type == "error":
            raise ValueError(f"line {node.source_line}: {node.message}")
        yield node


def _used(rules: Iterable[Node], words: set[str]) -> Iterator[str]:
    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = [part for part in _selectors(rule.prelude) if _names(part) <= words]
            if selectors:
                shown = ",".join(tinycss2.serialize(part).strip() for part in selectors)
                yield f"{shown}{{{tinycss2.serialize(rule.content).strip()}}}"
        elif rule.content is not None and rule.lower_at_keyword in {"media", "supports"}:
            within = "".join(
                _used(_rules(tinycss2.parse_rule_list(rule.content, True, True)), words)
            )
            if within:
                yield f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{within}}}"
        else:
            yield rule.serialize()


def _selectors(prelude: Iterable[Node]) -> list[list[Node]]:
    """The selectors of a rule, which commas part."""
    parted: list[list[Node]] = [[]]
    for node in prelude:
        if node == ",":
            parted.append([])
        else:
            parted[-1].append(node)
    return parted


def _names(selector: list[Node]) -> set[str]:
    """The classes and identifiers that it needs: none of those within :not(…) or :is(…)."""
    classes = {
        after.value for dot, after in pairwise(selector) if dot == "." and after.type == "ident"
    }
    identifiers = {node.value for node in selector if node.type == "hash"}
    return {name for name in classes | identifiers if not name.startswith(_MADE_BY_SCRIPTS)}


# ---- Icons ---------------------------------------------------------------------------------------


def cut_font(font: Path, signs: Iterable[int]) -> None:
    """Keep of a TrueType font the glyphs of these code points; its compressed twin goes."""
    from fontTools import subset  # here: half a second that reading pages does not need
    from fontTools.ttLib import TTFont

    with TTFont(font, recalcTimestamp=False) as read:  # the same bytes in every build
        cutter = subset.Subsetter(subset.Options(notdef_outline=True))
        cutter.populate(unicodes=signs)
        cutter.subset(read)
        read.save(font)
    font.with_suffix(".woff2").unlink(missing_ok=True)


def signs_of(sheet: str) -> set[int]:
    """The code points of private use that a style sheet sets: icons."""
    named = (int(code, 16) for code in re.findall(r"\\([0-9a-f]{4})\b", sheet))
    return {sign for sign in (*named, *map(ord, sheet)) if 0xE000 <= sign <= 0xF8FF}


# ---- Events of Sphinx ----------------------------------------------------------------------------


def cut_files(app: Sphinx, error: Exception | None) -> None:
    """`build-finished`: style sheets, fonts and the icons' script, whose addresses pages name."""
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    words = words_of(Path(app.outdir))
    signs: set[int] = set()
    for file in sorted(static.rglob("*.css")):
        sheet = file.read_text("utf-8")
        shorter = re.sub(r'url\([^)]*\.woff2\) format\("woff2"\),', "", cut(sheet, words))
        signs |= signs_of(shorter)
        if shorter != sheet:
            file.write_text(shorter, encoding="utf-8")
    for font in (static / _FONTS).glob("*.ttf"):
        cut_font(font, signs)
    if (static / _ICONS).is_file():
        (static / _ICONS).write_text("/* The icons come from the theme's font. */\n", "ascii")


def wait_for_the_page(
    _app: Any, page: str, _template: str, context: dict[str, Any], _doctree: Any
) -> None:
    """`html-page-context`: no script of Sphinx or the theme holds up what is read.

    Deferred scripts run in their order, when the page is there. Those of the search's page, which
    has more of them in its own template, stay as they are.
    """
    if page == "search":
        return
    context["script_files"] = [_deferred(script) for script in context["script_files"]]


def _deferred(script: Any) -> Any:
    """The script, deferred if it is a file of its own and nothing needs it at once."""
    name = str(getattr(script, "filename", None) or "")
    if not name or name.endswith(_AT_ONCE) or "async" in script.attributes:
        return script
    return type(script)(
        script.filename, priority=script.priority, **{"defer": "defer", **script.attributes}
    )


def load_mathjax_where_formulas_are(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: Any
) -> None:
    """`html-page-context`: take MathJax out of pages without a formula of their own.

    Sphinx loads it on the front page, too, because pages of its table of contents have some. In a
    book of one page, that page has them all.
    """
    if app.builder.name == "singlehtml":
        return
    has_formulas = app.env.get_domain("math").data["has_equations"].get(page, False)
    if not has_formulas:
        context["script_files"] = [
            script for script in context["script_files"] if not _is_mathjax(script)
        ]


def _is_mathjax(script: Any) -> bool:
    """Whether a script is MathJax, or its settings, which stand in the page."""
    place = str(getattr(script, "filename", script) or "")
    settings = getattr(script, "attributes", {}).get("body") or ""
    return "mathjax/" in place or "window.MathJax" in settings


def setup(app: Sphinx) -> None:
    # After Sphinx has put it there, at the default priority, 500.
    app.connect("html-page-context", load_mathjax_where_formulas_are, priority=700)
    app.connect("html-page-context", wait_for_the_page, priority=710)
    app.connect("build-finished", cut_files)
