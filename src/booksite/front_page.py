"""What the front page shows of the chapters: their minutes, and what came of the claims.

- `{minutes}` (a role): how long some pages take together, by the book's own clock;
- `{papers-tally}` (a directive): what came of the papers' claims, in one sentence;
- `{waiting}` (a directive): how many claims about GPT-2 this build could not ask, and what would.

The chapters are read after the front page. So both leave a mark that is filled when all pages are
there. A page that is not there is a warning, which the build treats as an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from booksite import claims_page
from booksite.opening import MINUTES
from booksite.unchanged import has_changed
from lnattn.errors import ResultError
from lnattn.models.choice import default_model
from lnattn_book.claims.listed import claims
from lnattn_book.claims.tally import sentence, tally, verdict_of
from lnattn_book.claims.verdicts import ABSENT, NOT_COMPUTABLE, Record, listed_words

#: The first paper's headline, claim by claim, in the words of a sentence.
HEADLINE = {
    "K3": "the pairs that its heads join",
    "K5": "head 7's AUROC",
    "K10": "the terms that matter",
    "K11": "what goes with frequency",
}
MARK = "lnattn_front_page"
_log = logging.getLogger(__name__)


class Minutes(SphinxRole):
    """`{minutes}`PAGE PAGE``: the sum of the minutes that pages take to read."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        self.env.metadata[self.env.docname][MARK] = "yes"  # written in every build
        return [nodes.inline("", "", **{MARK: f"minutes {self.text}"})], []


class FrontMark(SphinxDirective):
    """Leaves a container that `fill` replaces; named by the directive."""

    def run(self) -> list[nodes.Node]:
        self.env.metadata[self.env.docname][MARK] = "yes"  # written in every build
        return [nodes.container("", **{MARK: self.name})]


def marked(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Sphinx's event `env-updated`: pages that show what other pages hold, where that changed."""
    minutes = {page: about.get(MINUTES) for page, about in env.metadata.items()}
    labels = env.get_domain("std").data["anonlabels"]
    claimed = getattr(app, claims_page.MARK, [])
    if not has_changed(app, "front page", minutes, labels, claimed):
        return []
    return [name for name in env.found_docs if MARK in env.metadata[name]]


def fill(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Sphinx's event `doctree-resolved`: put in what the marks stand for."""
    for mark in list(
        doctree.findall(lambda node: isinstance(node, nodes.Element) and MARK in node)
    ):
        what, *names = mark[MARK].split()
        try:
            if what == "minutes":
                mark.replace_self(nodes.Text(str(minutes_of(app.env, names))))
            elif what == "papers-tally":
                mark.replace_self(nodes.paragraph("", came_of(app)))
            else:
                mark.replace_self(nodes.paragraph("", waiting(getattr(app, claims_page.MARK, []))))
        except ResultError as error:
            _log.warning("%s: %s", page, error, type="lnattn", subtype="front_page")
            mark.replace_self(nodes.Text("?"))


def came_of(app: Sphinx) -> str:
    """What came of the papers' claims in this build, as the claims page counts it."""
    records: Sequence[Record] = getattr(app, claims_page.MARK, [])
    return sentence(tally(claims().values(), records, default_model().name))


def minutes_of(env: BuildEnvironment, pages: Iterable[str]) -> int:
    """How long these pages take together; `ResultError` for one that is not in the book."""
    counted = {page: env.metadata[page].get(MINUTES) for page in pages}
    if absent := [page for page, count in counted.items() if count is None]:
        raise ResultError(f"{absent[0]} is no page of the book; name another.")
    return sum(filter(None, counted.values()))


def waiting(records: Sequence[Record]) -> str:
    """A sentence on the claims about GPT-2 that need its own weights and could still fail."""
    about = [claim for claim in claims().values() if claim.needs_checkpoint and claim.could_fail]
    verdicts = {claim.id: verdict_of(claim, records, model="") for claim in about}
    open_ = [claim.id for claim in about if verdicts[claim.id] in (ABSENT, NOT_COMPUTABLE)]
    if not open_:
        return f"All {len(about)} falsifiable claims about GPT-2 are judged on GPT-2 itself."
    headline = listed_words(words for name, words in HEADLINE.items() if name in open_)
    unchecked = f"Not checked on GPT-2, of the paper's headline: {headline}. "
    return (
        f"{len(open_)} of the {len(about)} falsifiable claims about GPT-2 wait for its token "
        f"embeddings, which this repository does not hold. {unchecked if headline else ''}"
        "A build with a network fetches them and judges these claims on GPT-2 itself; here you "
        "see the same code on small models."
    )


def setup(app: Sphinx) -> None:
    """Register the role, the directives and the events above."""
    app.add_role("minutes", Minutes())
    app.add_directive("papers-tally", FrontMark)
    app.add_directive("waiting", FrontMark)
    app.connect("env-updated", marked)
    app.connect("doctree-resolved", fill)
