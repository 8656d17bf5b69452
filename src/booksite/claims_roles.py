"""The role `{claim}`: a sentence cites a claim and the verdict that it relies on.

- ``{claim}`K11` ``: a link to the claim, with its line as a hover note;
- ``{claim}`U4 fails on gpt2` ``: the same link; the sentence relies on this verdict in this model;
- ``{claim}`K16 undecided` ``: on this verdict in every model that counts for the claim.

A verdict that this build's records do not have is a warning, which the build treats as an error. A
model that this build did not ask is no difference: another edition of the book asks it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from booksite import claims_page, links
from lnattn.errors import ResultError
from lnattn_book.claims.listed import claim
from lnattn_book.claims.verdicts import VERDICTS, Record

#: The page that has the claims.
PAGE = "book/claims"
#: Where the citations of a page are kept in Sphinx's metadata.
CITED = "lnattn_claims_cited"
_CITATION = re.compile(
    rf"(?P<claim>[A-Z]\d+)(?: (?P<verdict>{'|'.join(VERDICTS)}))?(?: on (?P<model>.+))?"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Citation:
    """A claim that a sentence cites; the verdict that it relies on, and in which model.

    verdict, model: '' where the sentence relies on none, and on that of every model that counts.

    >>> Citation.of("U4 fails on gpt2")
    Citation(claim='U4', verdict='fails', model='gpt2')
    """

    claim: str
    verdict: str = ""
    model: str = ""

    @classmethod
    def of(cls, text: str) -> Citation:
        """From the text of a role; `ResultError` for an unknown claim or verdict."""
        match = _CITATION.fullmatch(" ".join(text.split()))
        if match is None or (match["model"] and not match["verdict"]):
            raise ResultError(
                f"{text!r} cites no claim; write an id, or an id and a verdict "
                f"({', '.join(VERDICTS)}), and 'on MODEL' where models differ."
            )
        return cls(claim(match["claim"]).id, match["verdict"] or "", match["model"] or "")

    def differing(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records of the cited model whose verdict is another one."""
        if not self.verdict:
            return
        for record in records:
            of_model = record.model == self.model if self.model else record.counted
            if record.claim == self.claim and of_model and record.verdict != self.verdict:
                yield record


class ClaimRole(SphinxRole):
    """Leaves the claim's id, which `resolve` makes a link; the citation is checked by `check`."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            cited = Citation.of(self.text)
        except ResultError as error:
            message = self.inliner.reporter.error(str(error), line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        self.env.metadata[self.env.docname].setdefault(CITED, []).append(
            (cited.claim, cited.verdict, cited.model)
        )
        return [nodes.inline("", cited.claim, **{CITED: cited.claim})], []


def check(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Sphinx's event `env-updated`, after the claims were gathered: warn of what differs."""
    records: Sequence[Record] = getattr(app, claims_page.MARK, [])
    for page, about in sorted(env.metadata.items()):
        for cited in about.get(CITED, ()):
            for said in differences(Citation(*cited), records):
                _log.warning("%s", said, location=page, type="lnattn", subtype="claims")
    return []


def differences(cited: Citation, records: Iterable[Record]) -> Iterator[str]:
    """What a citation says and the records do not, a sentence for each model."""
    verdicts = {record.model: record.verdict for record in cited.differing(records)}
    for model, verdict in verdicts.items():
        yield (
            f"a sentence relies on {cited.claim} {cited.verdict!r}; on {model} it is {verdict!r}: "
            "change the sentence, or name the model that it is about"
        )


def resolve(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Sphinx's event `doctree-resolved`: make links of the claims' ids."""
    cited = [node for node in doctree.findall(nodes.inline) if CITED in node]
    for node in cited:
        about = claim(node[CITED])
        link = links.link(app, page, PAGE, f"claim-{about.id.lower()}", about.id)
        link["reftitle"] = f"{about.id}: {about.line}"
        node.replace_self(link)


def setup(app: Sphinx) -> None:
    """Register the role and the events above."""
    app.add_role("claim", ClaimRole())
    app.connect("env-updated", check, priority=900)  # after `claims_page.gather`
    app.connect("doctree-resolved", resolve)
