"""Embeddings in blocks, in Node.js: a sentence's own are enough, and a bad block is not taken."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from javascript import in_node
from safetensors.numpy import save

D, SIZE, BLOCK, EDITION = 4, 10, 4, "of these"
NEED = """(async () => {
  const { open, ofBlob } = lnattnSafetensors;
  const file = (text) => open(ofBlob(new Blob([Buffer.from(text, 'base64')]), 'block'));
  const answers = [];
  for (const blocks of data.cases) {
    let asked = [];
    const held = lnattnEmbeddings.inBlocks(data.about, async (number, take) => {
      asked.push(number);
      await take(await file(blocks[number]));
    });
    const need = held.need(data.ids);
    const said = await need.then(() => 'here', (error) => error.why ?? error.message);
    answers.push({ said, asked, rows: Array.from(held.rows(0, data.about.size)) });
  }
  return answers;
})()"""


def rows_of(dtype: str) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(3)
    if dtype == "F16":
        return {"W_E": draw.normal(size=(SIZE, D)).astype(np.float16)}
    whole = draw.integers(-127, 128, size=(SIZE, D)).astype(np.int8)
    return {"W_E": whole, "W_E.scale": draw.uniform(0.5, 2, SIZE).astype(np.float32)}


def numbers_of(rows: dict[str, np.ndarray]) -> np.ndarray:
    return rows["W_E"].astype(np.float32) * rows.get("W_E.scale", np.ones(SIZE))[:, None]


def block(rows: dict[str, np.ndarray], number: int, **said: Any) -> bytes:
    first = number * BLOCK
    part = {name: tensor[first : first + BLOCK] for name, tensor in rows.items()}
    return save(part, {"about": json.dumps({"edition": EDITION, "first": first, **said})})


def needed(dtype: str, ids: list[int], *cases: list[bytes]) -> list[dict[str, Any]]:
    """Of each list of blocks: what is said of the tokens, the blocks asked for, and all rows."""
    about = {"d": D, "size": SIZE, "block": BLOCK, "dtype": dtype, "edition": EDITION}
    encoded = [[base64.b64encode(one).decode() for one in blocks] for blocks in cases]
    asked = {"about": {**about, "order": [1, 0, 2]}, "ids": ids, "cases": encoded}
    return in_node(NEED, asked)


@pytest.mark.parametrize("dtype", ["F16", "I8"])
def test_a_sentence_asks_for_the_blocks_of_its_tokens(dtype) -> None:
    rows = rows_of(dtype)
    (answer,) = needed(dtype, [9, 1, 0, 1], [block(rows, i) for i in range(3)])
    assert answer["said"] == "here"
    assert sorted(answer["asked"]) == [0, 2]
    held = np.reshape(answer["rows"], (SIZE, D))
    np.testing.assert_allclose(held[[0, 1, 9]], numbers_of(rows)[[0, 1, 9]], rtol=1e-6)
    assert not held[4:8].any(), "nobody asked for these"


@pytest.mark.parametrize("dtype", ["F16", "I8"])
def test_of_a_block_that_is_not_what_it_should_be_nothing_is_held(dtype) -> None:
    rows = rows_of(dtype)
    good = [block(rows, i) for i in range(3)]
    cut = {name: tensor[:3] for name, tensor in rows.items()}
    other = {name: np.hstack([tensor] * 2) for name, tensor in rows.items()}
    name = "W_E.scale" if dtype == "I8" else "W_E"
    endless = {**rows, name: np.full_like(rows[name], np.inf)}
    spoilt = {
        "of another edition": block(rows, 0, edition="of others"),
        "other tokens": block(rows, 1),
        "other tokens, of a narrower block": block(cut, 0),
        "other tokens, of another width": block(other, 0),
        "other tokens, stored otherwise": block(rows_of("I8" if dtype == "F16" else "F16"), 0),
        "no finite numbers": block(endless, 0),
        "lacks its last": good[0][:-3],
        "ends within its header": good[0][:20],
        "is no safetensors": b"<!doctype html><title>Not found</title>",
    }
    cases = [[bad, *good[1:]] for bad in spoilt.values()]
    for (why, _), answer in zip(spoilt.items(), needed(dtype, [0], *cases), strict=True):
        assert why.partition(",")[0] in answer["said"], (why, answer["said"])
        assert not any(answer["rows"]), why


# ---- One token against those that are here -------------------------------------------------------

PARTS = """(async () => {
  const { d, rows: all, size, half } = data;
  const rows = (first, count) => Float32Array.from(all.slice(first * d, (first + count) * d));
  const W = Float32Array.from({ length: d * d }, (_, i) => Math.cos(i));
  const settings = { d, heads: 2, keyHeads: 2, norm: 'layer', positionsAre: 'learned', eps: 1e-5,
    scale: 2, causal: true, gamma: new Float32Array(d).fill(1), beta: null, W_Q: W, W_K: W,
    b_Q: null, b_K: null,
    positions: [0, 1].map((one) => Float32Array.from({ length: d }, (_, i) => (one * i) / d)),
  };
  const layer = lnattnFirstLayer.fold(settings);
  const inParts = lnattnFirstLayer.vocabulary(layer, rows, size);
  await inParts.add(half, size - half); // the later half comes first
  const early = await inParts.partners(size - 1, { key: half });
  await Promise.all([inParts.add(0, half), inParts.add(half, size - half)]);
  const again = [{ key: 3 }, {}].map((more) => inParts.partners(size - 1, more));
  const [late, other] = await Promise.all(again);
  const whole = lnattnFirstLayer.vocabulary(layer, rows, size);
  await whole.add(0, size);
  return { early, late, other, whole: await whole.partners(size - 1, { key: 3 }) };
})()"""


def test_partners_among_the_tokens_that_are_here_and_then_among_all() -> None:
    """What was scored before is kept, and in the end nothing differs from all tokens at once."""
    size, half, d = 3000, 1700, 8
    rows = np.random.default_rng(5).normal(size=(size, d)).astype(np.float32)
    rows[7] *= 40  # the best partners, and not among the first that come
    asked = {"d": d, "rows": rows.flatten().tolist(), "size": size, "half": half}
    found = in_node(PARTS, asked)
    early, late, whole = found["early"], found["late"], found["whole"]
    assert (early["among"], late["among"]) == (size - half, size)
    assert all(one["id"] >= half for head in early["keys"] for one in head)
    assert {len(head) for head in early["keys"]} == {5}
    assert late == whole
    assert found["other"]["keys"] == whole["keys"]
    assert early["keys"] != late["keys"]
    ranks = [one["rank"] for one in early["judged"]]
    assert all(1 <= rank <= size - half for rank in ranks)
    centred = rows.astype(np.float64) - rows.mean(axis=1, keepdims=True, dtype=np.float64)
    W = np.cos(np.arange(d * d)).reshape(d, d)
    places = np.array([np.zeros(d), np.arange(d) / d], dtype=np.float32)
    sigma = np.mean([np.sqrt((rows + p).var(axis=1, dtype=float) + 1e-5) for p in places], axis=0)
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        both = centred @ W.astype(np.float32)[:, part] / sigma[:, None]
        scores = both[half:] @ both[-1]
        best = half + np.argsort(-scores)[:5]
        assert [one["id"] for one in early["keys"][head]] == best.tolist()
        assert ranks[head] == 1 + int((scores > scores[0]).sum())
