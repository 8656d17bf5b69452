"""The book as an EPUB: its chapters as XHTML that stands by itself, formulas as MathML.

An EPUB reader runs no script, and takes a page whole or not at all: Sphinx writes HTML, with what
the pages of the site load. Here each page of the main path is read as a browser would, cut to what
can be read, and written as XHTML. `jupyter-book build . --builder custom --custom-builder epub`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.builders.epub3 import Epub3Builder
from sphinx.config import Config
from sphinx_external_toc.parsing import parse_toc_yaml

#: Parts of the contents that are the main path begin with a Roman number.
_NUMBERED = re.compile(r"[IVX]+ · ")
#: What chapters refer to all the time.
_CONSULTED = ("book/notation", "book/bibliography")
#: What a reader of paper cannot use, and what is drawn a second time for dark pages.
_OUT = (
    "script, noscript, style, button, input, form, iframe, canvas, template, "
    ".only-dark, .figure-files, .headerlink, a.image-reference.only-dark, [hidden]"
)
#: Style sheets that say how text looks; the others are of the site.
_STYLES = ("epub.css", "pygments.css")
#: Attributes that HTML had once.
_OUTDATED = ("border", "align", "valign", "cellpadding", "cellspacing", "nowrap")
_IN_STYLES = re.compile(r"url\(['\"]?([^'\"):]+)")
#: What a page has to declare → the element that it is declared for.
_KINDS = {"mathml": "math", "svg": "svg"}
_DELIMITERS = re.compile(r"^\\[\[(]|\\[\])]$")


def main_path(root: Path) -> list[str]:
    """The pages of an EPUB or a PDF, in reading order: front page, chapters, what they refer to."""
    contents = parse_toc_yaml(root / "_toc.yml")
    numbered = [part for part in contents.root.subtrees if _NUMBERED.match(part.caption or "")]
    chapters = [str(item) for part in numbered for item in part.items]
    return [contents.root.docname, *chapters, *_CONSULTED]


def as_xhtml(
    page: str, text: str, pages: Collection[str], macros: Mapping[str, str]
) -> BeautifulSoup:
    """A page of the site as one of an EPUB, to be written with `str`.

    page: its name. text: its HTML. pages: the names of all that the EPUB has; a link to another
    page, or to a file that is to be fetched, becomes its words. macros: those of the formulas,
    name without backslash → what it stands for.
    """
    soup = BeautifulSoup(text, "html5lib")
    for element in soup.select(_OUT):
        element.decompose()
    for sheet in soup.select("link"):
        if posixpath.basename(urlsplit(str(sheet.get("href", ""))).path) not in _STYLES:
            sheet.decompose()
    for formula in soup.select(".math"):
        _write_mathml(soup, formula, macros)
    for link in soup.select("a[href]"):
        target = _page_of(page, str(link["href"]))
        if target is not None and target not in pages:
            link.unwrap()
    _modernise(soup)
    return soup


def _modernise(soup: BeautifulSoup) -> None:
    """What browsers forgive, an EPUB's reader does not."""
    for element in soup.select("link[href], img[src]"):
        name = "href" if element.name == "link" else "src"
        element[name] = urlsplit(str(element[name])).path  # without the checksum behind ‘?’
    for title in soup.select("summary p"):
        title.name = "span"
    for drawing in soup.select("svg"):
        drawing["xmlns"] = "http://www.w3.org/2000/svg"
    for element in soup.find_all(True):
        for name in [*element.attrs]:
            if name in _OUTDATED or name.startswith("on"):
                del element[name]


def _page_of(page: str, href: str) -> str | None:
    """The page that a link of a page leads to, or a file's name; None for one that leads out."""
    parts = urlsplit(href)
    if parts.scheme or parts.netloc:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(parts.path)))
    return page if not parts.path else path.removesuffix(".xhtml")


def _write_mathml(soup: BeautifulSoup, formula: Tag, macros: Mapping[str, str]) -> None:
    """Put MathML where Sphinx left TeX for MathJax; the number of a displayed formula stays."""
    number = formula.select_one(".eqno")
    if number is not None:
        number.extract()
    tex = _DELIMITERS.sub("", formula.get_text().strip())
    tex = _DELIMITERS.sub("", tex.strip()).strip()
    for name, meaning in macros.items():
        tex = re.sub(rf"\\{name}(?![A-Za-z])", meaning.replace("\\", r"\\"), tex)
    display = "block" if formula.name == "div" else "inline"
    made = BeautifulSoup(convert(tex, display=display), "html5lib").select_one("math")
    formula.clear()
    if number is not None:
        formula.append(number)
    if made is not None:
        formula.append(made)


def macros_of(config: Config) -> dict[str, str]:
    """The macros of `_config.yml` without arguments: name → TeX."""
    told = (config.mathjax3_config or {}).get("tex", {}).get("macros", {})
    return {name: said[0] for name, said in told.items() if not said[1]}


class Epub(Epub3Builder):
    """The main path alone, each page as `as_xhtml` has it, and the files that they show."""

    def init(self) -> None:
        super().init()
        self.pages = main_path(Path(self.srcdir))
        self.written: dict[str, BeautifulSoup] = {}

    def write_doc(self, docname: str, doctree: Any) -> None:
        if docname in self.pages:
            super().write_doc(docname, doctree)

    def gen_additional_pages(self) -> None:
        """None: no search, no page for addresses that lead nowhere."""

    def handle_page(self, pagename: str, *arguments: Any, **keywords: Any) -> None:
        super().handle_page(pagename, *arguments, **keywords)
        path = Path(self.get_outfilename(pagename))
        known = [*self.pages, "nav"]
        soup = as_xhtml(pagename, path.read_text("utf-8"), known, macros_of(self.config))
        self.written[pagename] = soup
        path.write_text(str(soup), encoding="utf-8")

    def get_toc(self) -> None:
        super().get_toc()
        for entry in self.refnodes:  # ‘book/../notebooks/…’, as Sphinx puts it together
            entry["refuri"] = posixpath.normpath(entry["refuri"])
        self.refnodes = [
            entry for entry in self.refnodes if _page_of("", entry["refuri"]) in self.pages
        ]

    def build_content(self) -> None:
        """Only what the pages show is carried, whatever else lies in the folder."""
        self.domain_indices = []
        shown = {f"{page}{self.out_suffix}" for page in self.pages}
        for page, soup in self.written.items():
            self._forget_lost_places(page, soup)
            for element in soup.select("img[src], link[href]"):
                target = str(element.get("src") or element.get("href"))
                joined = posixpath.join(posixpath.dirname(page), unquote(target))
                shown.add(posixpath.normpath(joined))
        shown.add(self.config.epub_cover[0])
        for sheet in [name for name in shown if name.endswith(".css")]:
            text = (Path(self.outdir) / sheet).read_text("utf-8")
            shown |= {
                posixpath.join(posixpath.dirname(sheet), name) for name in _IN_STYLES.findall(text)
            }
        all_files = (path for path in Path(self.outdir).rglob("*") if path.is_file())
        names = (path.relative_to(self.outdir).as_posix() for path in all_files)
        self.config.epub_exclude_files = [name for name in names if name not in shown]
        super().build_content()
        self._declare_formulas()

    def _declare_formulas(self) -> None:
        """The list of files says which pages have MathML or drawings in them."""
        path = Path(self.outdir) / "content.opf"
        text = path.read_text("utf-8")
        for page, soup in self.written.items():
            has = " ".join(kind for kind in ("mathml", "svg") if soup.select(_KINDS[kind]))
            if has:
                item = f'href="{page}{self.out_suffix}"'
                text = text.replace(item, f'{item} properties="{has}"')
        path.write_text(text, encoding="utf-8")

    def _forget_lost_places(self, page: str, soup: BeautifulSoup) -> None:
        """A link to a place that went with what cannot be read becomes its words."""
        for link in soup.select("a[href*='#']"):
            href = str(link["href"])
            target = self.written.get(_page_of(page, href) or "")
            if target is not None and target.find(id=urlsplit(href).fragment) is None:
                link.unwrap()
        path = Path(self.get_outfilename(page))
        path.write_text(str(soup), encoding="utf-8")


def name_the_book(app: Sphinx, config: Config) -> None:
    """Sphinx's event `config-inited`: the title and version that an EPUB has to have."""
    config.version = config.release = version("lnattn")
    config.epub_title = config.html_title or config.project
    config.epub_basename = "lnattn"
    config.epub_uid = config.epub_identifier = f"lnattn-{config.version}"
    config.epub_description = "An executable replication of two papers on LayerNorm and attention"
    config.epub_cover = ("_static/preview.png", "epub-cover.html")
    config.epub_use_index = False
    config.epub_show_urls = "no"


def setup(app: Sphinx) -> dict[str, Any]:
    app.setup_extension("sphinx.builders.epub3")
    app.add_builder(Epub, override=True)
    app.connect("config-inited", name_the_book)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
