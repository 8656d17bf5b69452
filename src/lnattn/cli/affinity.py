"""The tokens that each head of the first layer pairs with a token, from the weights alone (T^ee).

The token is given as text, and must be one token of the model's vocabulary; a leading space counts.
Where positions are rotary, T^ee depends on how far the key stands before the query: --distance.
"""

from __future__ import annotations

import argparse
from typing import Any

from lnattn.cli import add_json, print_json

EXAMPLES = """examples:
  lnattn affinity minilm jackson                       what every head looks for from 'jackson'
  lnattn affinity gpt2 iens --head 7 --top 10
  lnattn affinity smollm2-135m " York" --distance 1
  lnattn affinity book-gpt2 " city" --side queries --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", help="a model's name, a hub id, or a folder")
    add("token", nargs="+", help="texts of single tokens")
    add("--head", type=int, metavar="N", help="one head only (counted from 0)")
    add("--top", type=int, default=5, metavar="K", help="partners (default: 5)")
    sides = "look for the keys that the token likes as a query (default), or the reverse"
    add("--side", choices=["keys", "queries"], default="keys", help=sides)
    far = "of the key before the query, for rotary and relative positions (default: 1)"
    add("--distance", type=int, metavar="N", help=far)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Print the best partners of each token in each head."""
    from lnattn.affinity.topk import partners
    from lnattn.errors import TokenError
    from lnattn.models.checkpoints import load_first_layer

    model = load_first_layer(args.model)
    if model.tokenizer is None:
        raise TokenError(f"{model.name} has no tokenizer, so no token can be named by its text.")
    ids = [_single(model.tokenizer, text) for text in args.token]
    vectors = _vectors(model, args.distance, ids if args.side == "keys" else None)
    if args.head is not None and not 0 <= args.head < vectors.n_heads:
        raise TokenError(f"{model.name} has heads 0 to {vectors.n_heads - 1}; {args.head} is none.")
    heads = range(vectors.n_heads) if args.head is None else [args.head]
    best = partners(vectors, ids, args.top, args.side)
    rows: list[dict[str, Any]] = []
    for i, text in enumerate(args.token):
        for head in heads:
            pairs = zip(best.ids[head, i].tolist(), best.scores[head, i].tolist(), strict=True)
            named = [
                {"token": model.tokenizer.decode([token]), "id": token, "score": score}
                for token, score in pairs
            ]
            rows.append({"token": text, "head": head, "partners": named})
    if args.json:
        print_json(rows)
        return
    for row in rows:
        shown = ", ".join(f"{p['token']!r} {p['score']:.2f}" for p in row["partners"])
        print(f"{row['token']!r} head {row['head']}: {shown}")


def _vectors(model: Any, distance: int | None, query_ids: list[int] | None) -> Any:
    """The vectors of all tokens in each head; where positions are rotary, at a distance."""
    from lnattn.affinity.by_distance import vectors_at_distance
    from lnattn.attention.folding import fold
    from lnattn.attention.vectors import token_vectors
    from lnattn.errors import TokenError
    from lnattn.rotary.fold import fold_relative
    from lnattn.rotary.weights import RelativeFirstLayer

    if isinstance(model, RelativeFirstLayer):
        folded = fold_relative(model.attention)
        far = 1 if distance is None else distance
        return vectors_at_distance(folded, model.embeddings, far, query_ids=query_ids)
    if distance is not None:
        raise TokenError(
            f"T^ee of {model.name} is the same at every distance, since its positions are added to "
            "its input; leave --distance out."
        )
    return token_vectors(fold(model.attention), model.embeddings)


def _single(tokenizer: Any, text: str) -> int:
    """The id of a text that is one token; else the error names the pieces, and what is meant."""
    from lnattn.errors import TokenError

    token = _token(tokenizer, text)
    if token is not None:
        return token
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces = ", ".join(repr(tokenizer.decode([token])) for token in ids)
    spaced = text.removeprefix(" ") if text.startswith(" ") else f" {text}"
    hint = f"; did you mean {spaced!r}?" if _token(tokenizer, spaced) is not None else "."
    raise TokenError(f"{text!r} is no single token of this model but {pieces or 'nothing'}{hint}")


def _token(tokenizer: Any, text: str) -> int | None:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    single = len(ids) == 1 and not ids[0] == tokenizer.unk_token_id != tokenizer.eos_token_id
    return ids[0] if single else None
