"""Which keys of the small language models are unselectable: Tables 1 and 2, and beyond (B8–B10).

Each window of text gives, for each layer, several sets of keys in which to look: the residual
stream before the LayerNorm, what comes out of it (the paper's keys, in R^d), and what each head
makes of that, in R^{d_head}. A head's scores are linear in the last kind, so a key that is
unselectable there cannot win in that head, whatever the query.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2LMHeadModel

from experiments.unselectable_lm.small_models import keys_of_layers, load_arm, packed
from lnattn.errors import CorpusError, ResultError
from lnattn.progress import say
from lnattn.selectability.decide import selectability
from lnattn.selectability.verify import verify
from lnattn.storage import provenance, read_result, sha256_of_file, write_result
from lnattn.text.corpora import read_documents
from lnattn.text.tokenizers import load_tokenizer
from lnattn_book.studies.language_models import KEYS, LONGEST, SHORTEST
from lnattn_book.studies.papers_search import bounded_search

GPT2_VOCABULARY = 50_257


@dataclass(frozen=True)
class Evaluation:
    """Shares of unselectable keys of one model over windows of text.

    exact: [layer place window], places being: before the LayerNorm, after it (the keys), head 0,
    head 1, …; rank: the same, of the affine hull; search: [layer 2 searched], the same share as
    the papers' bounded search counts it, before and after, on the first windows; genuine: of the
    keys that search calls selectable, the share whose query wins in float64 too. The exact shares
    are of keys computed in float64, the search runs on float32 as the papers' does.
    certificates: how many were verified, all of them; by_program: verdicts by linear program.
    """

    exact: Float[np.ndarray, "layer place window"]
    rank: Float[np.ndarray, "layer place window"]
    search: Float[np.ndarray, "layer 2 searched"]
    genuine: Float[np.ndarray, "layer 2 searched"]
    certificates: int
    by_program: int


def evaluate(
    model: GPT2LMHeadModel, windows: Sequence[Sequence[int]], searched: int = 0
) -> Evaluation:
    """Decide every key of every window, verify every certificate, and search as the papers do.

    searched: on how many of the windows to run the papers' search, which takes a linear program
    for most unselectable keys. Raises `ResultError` if a certificate does not hold.
    """
    layers = model.config.n_layer
    heads = model.config.n_head
    precise = copy.deepcopy(model).double()
    exact = np.zeros((layers, 2 + heads, len(windows)))
    rank = np.zeros_like(exact)
    search = np.zeros((layers, 2, searched))
    genuine = np.zeros_like(search)
    certificates = by_program = 0
    for w, window in enumerate(windows):
        vectors = keys_of_layers(precise, window)
        rounded = keys_of_layers(model, window) if w < searched else {}
        for layer in range(layers):
            sets = [vectors["before"][layer], vectors["keys"][layer], *vectors["heads"][layer]]
            for place, keys in enumerate(sets):
                verdict = selectability(keys)
                checked = verify(keys, verdict)
                if not checked.ok:
                    raise ResultError(
                        f"window {w}, layer {layer}, place {place}: {checked.failures[0]}"
                    )
                certificates += checked.directions + checked.combinations
                by_program += verdict.by_linear_program
                exact[layer, place, w] = verdict.unselectable
                rank[layer, place, w] = verdict.rank
                if w < searched and place <= KEYS:
                    theirs = bounded_search(rounded[("before", "keys")[place]][layer])
                    search[layer, place, w] = theirs.unselectable
                    genuine[layer, place, w] = theirs.genuine.sum() / max(
                        1, theirs.selectable.sum()
                    )
    return Evaluation(exact, rank, search, genuine, certificates, by_program)


def text_windows(
    source: Path | str, tokenizer: Path | str, most: int | None = None
) -> list[list[int]]:
    """Windows of `SHORTEST` to `LONGEST` tokens, packed from whole documents: all, or the first."""
    bpe = load_tokenizer(tokenizer)
    documents = bpe(list(read_documents([source])), add_special_tokens=False, verbose=False)
    windows = packed(documents["input_ids"], SHORTEST, LONGEST)
    if len(windows) < (most or 1):
        raise CorpusError(f"{source} fills {len(windows)} windows, and {most or 1} were asked for.")
    return windows[:most]


def freeze_evaluation(
    folders: Sequence[Path | str],
    source: Path | str,
    tokenizer: Path | str,
    out: Path | str,
    windows: int = 24,
    searched: int = 2,
    progress: bool = False,
) -> Path:
    """Evaluate trained arms on a text, one frozen result `lm-NAME` each, and return the folder.

    An arm that is already frozen there, from the same weights, text and sizes, is passed over.
    """
    texts = text_windows(source, tokenizer, windows)
    for folder in map(Path, folders):
        model, record = load_arm(folder, tokenizer)
        name = f"lm-{folder.name}"
        facts = {
            "weights_sha256": record["weights_sha256"],
            "text": Path(source).name,
            "text_sha256": sha256_of_file(source),
            "windows": windows,
            "searched": searched,
        }
        if (Path(out) / f"{name}.json").is_file():
            stored = read_result(out, name)[1]
            if all(stored[key] == value for key, value in facts.items()):
                continue
        evaluated = evaluate(model, texts, searched)
        log = record["log"]
        arrays = {
            "exact": evaluated.exact,
            "rank": evaluated.rank.astype(np.int16),
            "search": evaluated.search,
            "genuine": evaluated.genuine,
            **{key: np.array([entry[key] for entry in log]) for key in ("step", "train_loss")},
            "held_out_loss": np.array([entry["held_out_loss"] for entry in log]),
        }
        training = {key: record[key] for key in ("arm", "plan", "tokens_seen", "corpus")}
        counted = {
            "certificates": evaluated.certificates,
            "by_linear_program": evaluated.by_program,
        }
        write_result(out, name, arrays, provenance(**facts, **training, **counted))
        if progress:
            shares = evaluated.exact[:, KEYS].mean(axis=-1).round(3).tolist()
            say(f"{name}: unselectable keys by layer {shares}")
    return Path(out)


def freeze_table_1(
    folders: Sequence[Path | str],
    source: Path | str,
    tokenizer: Path | str,
    out: Path | str,
    windows: int = 100,
    seed: int = 0,
) -> Path:
    """Table 1 like for like: random windows, the same for all arms, exactly and by the search.

    Freezes `table-1` with exact [arm layer window], of keys in float64, and search, of keys in
    float32. Raises `CorpusError` where the text is too short.
    """
    texts = text_windows(source, tokenizer)
    if len(texts) < windows:
        raise CorpusError(f"{source} fills {len(texts)} windows, and {windows} were asked for.")
    chosen = np.random.default_rng(seed).choice(len(texts), windows, replace=False)
    exact: list[Any] = []
    search: list[Any] = []
    hashes = {}
    for folder in map(Path, folders):
        model, record = load_arm(folder, tokenizer)
        precise = copy.deepcopy(model).double()
        hashes[folder.name] = record["weights_sha256"]
        for of_window, layers, share in (
            (exact, precise, lambda keys: selectability(keys).unselectable),
            (search, model, lambda keys: bounded_search(keys).unselectable),
        ):
            keys = [keys_of_layers(layers, texts[w])["keys"] for w in chosen]
            of_window.append([[share(layer) for layer in window] for window in keys])
    record = provenance(
        function="experiments.unselectable_lm.evaluation.freeze_table_1",
        weights_sha256=hashes,
        text=Path(source).name,
        text_sha256=sha256_of_file(source),
        windows=windows,
        of_windows=len(texts),
        seed=seed,
    )
    arrays = {
        name: np.array(shares).transpose(0, 2, 1)
        for name, shares in (("exact", exact), ("search", search))
    }
    return write_result(out, "table-1", arrays, record)


def freeze_lengths(source: Path | str, gpt2_files: Path | str, out: Path | str) -> Path:
    """How long the documents of a text are in GPT-2's tokens, as the frozen result `lengths`.

    gpt2_files: a folder with GPT-2's vocab.json and merges.txt. The released evaluation draws
    documents of SQuAD until one has `SHORTEST` tokens; this says how many there are.
    """
    bpe = ByteLevelBPETokenizer.from_file(
        str(Path(gpt2_files) / "vocab.json"), str(Path(gpt2_files) / "merges.txt")
    )
    encoded = bpe.encode_batch(list(read_documents([source])))
    lengths = np.array([len(document.ids) for document in encoded])
    if bpe.get_vocab_size() != GPT2_VOCABULARY:
        raise CorpusError(
            f"{gpt2_files} holds a vocabulary of {bpe.get_vocab_size()} tokens; GPT-2's has "
            f"{GPT2_VOCABULARY}."
        )
    record = provenance(
        function="experiments.unselectable_lm.evaluation.freeze_lengths",
        text=Path(source).name,
        text_sha256=sha256_of_file(source),
        shortest=SHORTEST,
    )
    return write_result(out, "lengths", {"lengths": lengths}, record)
