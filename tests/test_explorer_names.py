"""Names of opened checkpoints, and what their heads do on a text, in Node.js."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_folders import checkpoint
from javascript import in_node
from test_explorer_checkpoint import FILES, TEXT, folded_of

from lnattn import Embeddings, distance_terms, load_first_layer, six_terms
from lnattn.reporting.words import KINDS

NAMES = """(async () => {
  const names = [];
  const files = await Promise.all(data.files.map(fileOf));
  for (const { folder, said } of data.cases) {
    const config = JSON.stringify({ ...data.config, ...said });
    const json = { name: 'config.json', text: async () => config };
    for (const file of files) file.webkitRelativePath = folder ? `${folder}/${file.name}` : '';
    names.push((await lnattnModels.openFiles([...files, json])).one.name);
  }
  return names;
})()"""


def test_opened_checkpoints_have_names_of_their_own(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, "gpt2")
    config = json.loads((folder / "config.json").read_text())
    cases = {
        "my-model": {"folder": "my-model", "said": {"_name_or_path": "owner/other"}},
        "owner/name": {"said": {"_name_or_path": "owner/name"}},
        "checkpoint-500": {"said": {"_name_or_path": "/home/somebody/runs/checkpoint-500/"}},
        "run 7": {"said": {"_name_or_path": "C:\\work\\run 7"}},
        "yours, 4 heads": {"said": {"_name_or_path": ""}},
        "yours, 4 heads (2)": {"said": {"_name_or_path": 5}},
        "yours, 4 heads (3)": {"said": {"_name_or_path": "./"}},
        "owner/name (2)": {"said": {"_name_or_path": "owner/name"}},
        "x" * 60: {"said": {"_name_or_path": "x" * 300}},
    }
    files = [str(folder / name) for name in FILES if name != "config.json"]
    found = in_node(NAMES, {"files": files, "config": config, "cases": list(cases.values())})
    assert found == list(cases)


GLANCE = """(async () => {
  const model = await lnattnModels.openFiles(await Promise.all(data.files.map(fileOf)));
  const { layer, words: { encode }, embeddings: { rows } } = model;
  const ids = encode(data.text);
  const terms = lnattnFirstLayer.termsOf(layer, ids.map((id) => rows(id, 1)));
  return { ids, heads: lnattnAbout.glance(layer, terms, data.kinds) };
})()"""


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_what_heads_do_on_a_text_is_the_packages(family, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, family)
    model = load_first_layer(str(folder)).to(torch.float64)
    kinds = {kind: sorted(of) for kind, of in KINDS.items()}
    files = [str(folder / name) for name in FILES]
    found = in_node(GLANCE, {"files": files, "text": TEXT, "kinds": kinds})
    compute = six_terms if isinstance(model.embeddings, Embeddings) else distance_terms
    terms = compute(folded_of(model), model.embeddings, found["ids"])
    whole = terms.attention().double()
    start = 1 if model.attention.causal else 0  # a query that sees one key has no choice
    first = whole[:, start:, 0].mean(1)
    np.testing.assert_allclose([head["first"] for head in found["heads"]], first, atol=1e-6)
    moved = {}
    for kind, names in kinds.items():
        kept = sum(terms[name] for name in terms.names if name not in names)
        left = terms.softmax(kept.expand(whole.shape)).double()
        apart = torch.where(whole > 0, whole * (whole / left).log(), 0.0).sum(-1)
        moved[kind] = apart[:, start:].mean(1).numpy()
        shown = [head["moved"][kind] for head in found["heads"]]
        np.testing.assert_allclose(shown, moved[kind], atol=1e-5)
    most = np.stack([*moved.values()]).argmax(axis=0)
    assert [head["mostly"] for head in found["heads"]] == [list(kinds)[kind] for kind in most]
    assert max(map(max, moved.values())) > 0.1, "the bounds above are no courtesy"


def test_a_head_that_nothing_moves_prefers_no_key() -> None:
    asked = """(() => {
      const keys = [0, 1, 2];
      const terms = { n: 3, heads: 1, names: ['ee', 'pp'], keysOf: () => keys, term: () => data };
      const kinds = { 'compares tokens': ['ee'], 'looks by place': ['pp'] };
      return lnattnAbout.glance({ scale: 1 }, terms, kinds);
    })()"""
    (head,) = in_node(asked, 2.0)
    assert head["mostly"] == "prefers no key"
    assert head["first"] == pytest.approx(1 / 3)
    assert head["moved"] == {"compares tokens": 0, "looks by place": 0}
