"""A report as one HTML page: nothing is fetched, light and dark follow the reader's system."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from lnattn.reporting.part import Part

#: Colours and shapes of parts, wherever they are shown: in a page of their own, or inside a page
#: that says itself, by data-theme, whether it is dark.
STYLE = """
.lr{--lr-ink:#1d2129;--lr-soft:#5b6370;--lr-ground:#fff;--lr-card:#fff;--lr-edge:#d9dde3;
--lr-grey:#8a919c;--lr-blue:#0072B2;--lr-vermilion:#D55E00;--lr-key:#d6e8f5;--lr-query:#fbe3d2}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]) .lr{--lr-ink:#e6e9ee;
--lr-soft:#a5adba;--lr-ground:#14171c;--lr-card:#1b1f26;--lr-edge:#343a45;--lr-grey:#8a919c;
--lr-blue:#56B4E9;--lr-vermilion:#f08a4b;--lr-key:#173a52;--lr-query:#55301a}}
html[data-theme=dark] .lr{--lr-ink:#e6e9ee;--lr-soft:#a5adba;--lr-ground:#14171c;
--lr-card:#1b1f26;--lr-edge:#343a45;--lr-blue:#56B4E9;--lr-vermilion:#f08a4b;--lr-key:#173a52;
--lr-query:#55301a}
.lr{color:var(--lr-ink)}
.lr *{box-sizing:border-box}
.lr-part{background:var(--lr-card);border:1px solid var(--lr-edge);border-radius:10px;
padding:1.1rem 1.4rem;margin:0 0 1.2rem;break-inside:avoid}
.lr-part h2,.lr-part h3{margin:0 0 .5rem;font-size:1.2rem;color:var(--lr-ink);border:0}
.lr-part p{margin:.35rem 0;max-width:46rem}
.lr-missing p{color:var(--lr-soft)}
.lr figure{margin:1rem 0 .4rem}
.lr figcaption{color:var(--lr-soft);font-size:.86rem;max-width:46rem;margin-top:.4rem}
.lr svg{display:block;max-width:100%;height:auto}
.lr-line,.lr-thin{fill:none;stroke-width:1.8;stroke-linejoin:round}
.lr-thin{stroke-width:1.1;opacity:.75}
.lr-frame{fill:none;stroke:var(--lr-edge)}
.lr-zero{stroke:var(--lr-grey);stroke-dasharray:3 3;fill:none}
.lr-band{fill:var(--lr-blue);opacity:.22;stroke:none}
.lr-other{fill:none;stroke-width:1.6}
.lr svg text{fill:var(--lr-ink);font:12px system-ui,sans-serif}
.lr svg .lr-axis{fill:var(--lr-soft);font-size:11.5px}
.lr svg .lr-title{font-weight:600}
.lr-scroll{overflow-x:auto}
.lr table{border-collapse:collapse;font-size:.88rem;margin:.6rem 0;background:none;width:auto;
color:var(--lr-ink)}
.lr caption{text-align:left;font-weight:600;padding:.2rem 0;caption-side:top;color:var(--lr-ink)}
.lr th,.lr td{padding:.24rem .6rem;border-bottom:1px solid var(--lr-edge);text-align:left;
background:none;vertical-align:top;color:var(--lr-ink)}
.lr thead th{color:var(--lr-soft);font-weight:500;vertical-align:bottom}
.lr-number,.lr-heat td{text-align:right;font-variant-numeric:tabular-nums}
.lr-heat td:last-child{text-align:left;white-space:nowrap}
.lr tbody th{font-weight:600;white-space:nowrap}
.lr details{margin:.6rem 0 0}
.lr summary{cursor:pointer;color:var(--lr-blue)}
.lr-pairs{list-style:none;padding:0;margin:.4rem 0;display:grid;gap:.35rem .9rem;
grid-template-columns:repeat(auto-fill,minmax(19rem,1fr))}
.lr-pairs li{margin:0}
.lr-key,.lr-query{display:inline-block;padding:.1rem .4rem;border:1px solid var(--lr-blue);
background:var(--lr-key);font-family:ui-monospace,monospace;font-size:.88rem}
.lr-key{border-radius:6px 0 0 6px}
.lr-query{border-radius:0 6px 6px 0;border-color:var(--lr-vermilion);background:var(--lr-query);
margin-left:2px}
.lr-words{color:var(--lr-soft);font-size:.82rem}
"""
_PAGE_STYLE = """
body{margin:0;font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
body.lr{background:var(--lr-ground)}
main,header,footer{max-width:62rem;margin:0 auto;padding:0 1.2rem}
header{padding-top:2rem}
header h1{margin:0;font-size:1.8rem;line-height:1.2;overflow-wrap:anywhere}
header p,footer{color:var(--lr-soft)}
nav{display:flex;flex-wrap:wrap;gap:.35rem .9rem;margin:.8rem 0 1.4rem}
a{color:var(--lr-blue)}
footer{font-size:.86rem;padding-bottom:3rem;overflow-wrap:anywhere}
@media print{nav{display:none}}
"""


def fragment(name: str, parts: Sequence[Part]) -> str:
    """The parts as HTML for a page that is there already, with their own style."""
    sections = "".join(part.html(level=3, model=name) for part in parts)
    return f'<style>{STYLE}</style><div class="lr">{sections}</div>'


def page(name: str, parts: Sequence[Part], record: Mapping[str, Any]) -> str:
    """A whole page: what it is about, links to the parts, the parts, and where they are from."""
    title = html.escape(f"The first layer of {name}")
    links = "".join(f'<a href="#{part.name}">{html.escape(part.title)}</a>' for part in parts)
    sections = "".join(f'<div id="{part.name}">{part.html()}</div>' for part in parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>'
        f'<style>{STYLE}{_PAGE_STYLE}</style></head><body class="lr"><header><h1>{title}</h1>'
        f"<p>LayerNorm and attention, read from the weights: what its heads compare, prefer and "
        f"cannot see.</p><nav>{links}</nav></header><main>{sections}</main>"
        f"<footer>{_foot(record)}</footer></body></html>\n"
    )


def _foot(record: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    weights = record.get("weights_sha256")
    told = [
        f"Made on {record['date']} in {record['seconds']:.0f} s with {versions}.",
        f"Source: {record['source']}." if record.get("source") else "",
        f"Weights: sha256 {weights[:16]}…" if weights else "",
        f"Seed {record['seed']}. Every number is in the JSON file beside this page.",
    ]
    return "".join(f"<p>{html.escape(words)}</p>" for words in told if words)
