"""Links from a claim to the cell, the function and the test behind it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from lnattn_book.claims.listed import Claim
from lnattn_book.claims.verdicts import Record

CELLS = "lnattn_cells"


def name_cells(app: Sphinx, doctree: nodes.document) -> None:
    """Give every code cell that is shown an anchor, `cell-3` for the third that was executed."""
    shown = []
    for node in doctree.findall(nodes.container):
        if node.get("nb_element") == "cell_code" and node.get("exec_count"):
            node["ids"].append(f"cell-{node['exec_count']}")
            shown.append(str(node["exec_count"]))
    if shown:
        app.env.metadata[app.env.docname][CELLS] = " ".join(shown)


def of_claim(app: Sphinx, page: str, claim: Claim, entry: Record) -> list[nodes.Node]:
    """Links to the cell in its chapter, the function in the API reference, and the test."""
    separated: list[nodes.Node] = [to_cell(app, page, entry)]
    for part in (to_function(app, page, entry.function), to_test(app.config, claim.test)):
        separated += [nodes.Text(" · "), part]
    return separated


def to_cell(app: Sphinx, page: str, entry: Record) -> nodes.Node:
    """The figure that a record names; else the cell it ran in, or the next one that is shown."""
    number = entry.chapter.split("/")[-1].split("-")[0]
    title = f"chapter {number}" if number.isdigit() else "appendix"
    labels = app.env.get_domain("std").data["anonlabels"]
    if entry.cell in labels:
        chapter, anchor = labels[entry.cell]
        return link(app, page, chapter, anchor, title)
    shown = [int(number) for number in app.env.metadata[entry.chapter].get(CELLS, "").split()]
    after = [number for number in shown if number >= entry.execution] or shown[-1:]
    return link(app, page, entry.chapter, f"cell-{min(after)}" if after else "", title)


def to_function(app: Sphinx, page: str, name: str) -> nodes.Node:
    """The function in the API reference; its bare name where the reference does not have it."""
    known = app.env.get_domain("py").data
    short = nodes.literal("", name.split(".")[-1])
    target = known["objects"].get(name) or known["modules"].get(name)
    return link(app, page, target.docname, target.node_id, short) if target else short


def to_test(config: Any, name: str) -> nodes.Node:
    """The test's file in the repository where its address is known, else the test's name."""
    address = (config.html_theme_options.get("repository_url") or "").rstrip("/")
    if not address:
        return nodes.literal("", name.partition("::")[0])
    branch = config.html_theme_options.get("repository_branch") or "main"
    file = name.partition("::")[0]
    return nodes.reference("", "test", refuri=f"{address}/blob/{branch}/{file}")


def link(app: Sphinx, page: str, target: str, anchor: str, shown: str | nodes.Node) -> nodes.Node:
    """A reference to an anchor on another page of the book ('' for its top)."""
    address = app.builder.get_relative_uri(page, target)
    if anchor:
        address += f"#{anchor}"
    content = nodes.Text(shown) if isinstance(shown, str) else shown
    return nodes.reference("", "", content, refuri=address, internal=True)
