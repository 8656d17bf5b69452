"""Every text: the ends of all scores of a head, against the products that they are read from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from common import peak_memory, random_first_layer, ratio, time_side_by_side
from torch import Tensor

from lnattn import fold, fold_relative, load_first_layer
from lnattn.guarantees import EveryText
from lnattn.rotary.weights import AnyFirstLayer, RelativeFirstLayer
from lnattn.stats import blocks
from lnattn.weights import FirstLayer

#: Scores that the bare products hold at once, as `lnattn.guarantees` does.
_SCORES = 1 << 21
#: Tokens of a text: of book-llama; and of GPT-2's shape, the query at the end of three places.
LENGTH, THREE_PLACES = 64, 4


def run(quick: bool = False) -> dict[str, Any]:
    """Time one head beside its products, then all heads, of book-llama and of GPT-2's shape."""
    llama = load_first_layer("book-llama")
    shape = {"vocab": 600, "d_model": 48, "heads": 4, "positions": 64} if quick else {}
    gpt2 = random_first_layer(**shape)
    length = 6 if quick else LENGTH
    heads = llama.attention.n_heads
    gpt2_heads = gpt2.attention.n_heads
    names = {
        "one": "ours, one head of book-llama",
        "products": "matrix products alone, one head of book-llama",
        "all": f"ours, {heads} heads of book-llama",
        "gpt2": "ours, one head of GPT-2's shape",
        "gpt2 products": "matrix products alone, one head of GPT-2's shape",
        "gpt2 all": f"ours, {gpt2_heads} heads of GPT-2's shape",
    }
    turned = turned_queries_and_keys(llama, length)  # one head; what makes them is not timed
    rotary = {
        names["one"]: lambda: ends(llama, length, heads=1),
        names["products"]: lambda: rotary_products(*turned),
    }
    learned = {
        names["gpt2"]: lambda: ends(gpt2, THREE_PLACES, heads=1),
        names["gpt2 products"]: lambda: learned_products(gpt2, THREE_PLACES),
    }
    whole = {
        names["all"]: lambda: ends(llama, length, heads),
        names["gpt2 all"]: lambda: ends(gpt2, THREE_PLACES, gpt2_heads),
    }
    timings = time_side_by_side(rotary, repeats=1 if quick else 3)
    timings |= time_side_by_side(learned, repeats=1 if quick else 3)
    timings |= time_side_by_side(whole, repeats=1, warm_up=0)
    methods = {**rotary, **learned}
    timings |= {
        name: replace(timings[name], peak_mib=peak_memory(method))
        for name, method in methods.items()
    }
    floor = None if quick else 1 / 2
    return {
        "title": "Every text",
        "what": (
            "The lowest and the highest score of every query with any token, at each place of a "
            "text. Of book-llama at 63 places before the query; of random weights in GPT-2 small's "
            "shape, whose trained embeddings are not at hand, at three. The products of all "
            "queries with all keys of each place are timed alone beside it; of GPT-2's shape ours "
            "makes that of the tokens once for all places."
        ),
        "workload": {
            "V": llama.embeddings.vocab_size,
            "d": llama.attention.W_Q.shape[2],
            "heads": heads,
            "P": length,
        },
        "rows": [timing.as_row() for timing in timings.values()],
        "ratios": [
            ratio(timings[names["products"]], timings[names["one"]], floor=floor),
            ratio(timings[names["gpt2 products"]], timings[names["gpt2"]], floor=floor),
        ],
        "growth": [],
        "notes": ["All heads together were run once; each head has the peak memory of one."],
    }


def ends(model: AnyFirstLayer, length: int, heads: int) -> None:
    """The ends of all queries in texts of a length, in so many heads."""
    for head in range(heads):
        texts = EveryText(model, head=head, length=length)
        texts.ends(torch.arange(texts.vocab_size))


def turned_queries_and_keys(model: RelativeFirstLayer, length: int) -> tuple[Tensor, Tensor]:
    """Of head 0: all queries as at each distance from 1 on, [query place d_head], and all keys."""
    folded = fold_relative(model.attention)
    rows = model.embeddings.rows(slice(None))
    keys = folded.at_origin(folded.keys(rows))[0]
    return folded.at_distances(folded.queries(rows), torch.arange(1, length))[0], keys


def rotary_products(queries: Tensor, keys: Tensor) -> None:
    """Queries turned to each distance times keys, the results thrown away."""
    for block in blocks(len(queries), len(keys), _SCORES):
        products = keys.new_empty(len(queries[block]), len(keys))
        for place in range(queries.shape[1]):
            torch.mm(queries[block, place], keys.mT, out=products)


def learned_products(model: FirstLayer, length: int) -> None:
    """Queries at the last place times the keys of each place before it, the results thrown away."""
    folded = fold(model.attention)
    tokens = model.embeddings.tokens()
    places = model.embeddings.W_P[:length]
    queries = (tokens + places[-1]) @ folded.W_Q[0]
    products = queries.new_empty(0)
    for place in places[:-1]:
        keys = (tokens + place) @ folded.W_K[0]
        for block in blocks(len(queries), len(keys), _SCORES):
            products.resize_(len(queries[block]), len(keys))
            torch.mm(queries[block], keys.mT, out=products)
