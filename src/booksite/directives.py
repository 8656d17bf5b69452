"""Repairs to what sphinx-proof and sphinx-exercise write, which is one id several times on a page.

Every theorem, exercise and solution holds its text in a section with the same id, and every proof
has the id 'proof'. A proof that is to be folded (`:class: dropdown`) gets a title, for that is what
stays visible.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

#: Ids that every directive of its kind gives to a part of itself.
_SHARED = ("exercise-content", "solution-content", "proof-content", "proof")
_PROOF = "Proof. "


def repair(_app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """Sphinx's event `doctree-resolved`: sphinx-exercise makes its titles shortly before."""
    for node in doctree.findall(lambda node: isinstance(node, nodes.section | nodes.admonition)):
        if node["ids"] == ["proof"] and "dropdown" in node["classes"]:
            _give_title(node)
        node["ids"] = [name for name in node["ids"] if name not in _SHARED]


def _give_title(proof: nodes.admonition) -> None:
    first = proof.next_node(nodes.Text)
    first.parent.replace(first, nodes.Text(first.astext().removeprefix(_PROOF)))
    proof.insert(0, nodes.title("", _PROOF.rstrip(". ")))


def setup(app: Sphinx) -> None:
    app.connect("doctree-resolved", repair)
