"""Loading a tokenizer as its file says.

Where a folder has a tokenizer.json, that file is the tokenizer: what it does with a text (ids,
normalising, splitting, added tokens) is what was trained with. transformers 5 takes some files
apart and rebuilds a tokenizer of the class that tokenizer_config.json names, without the file's
splitting rule or normaliser; `disagreement` says where that gives other ids. Nothing here asks a
network, and nothing of a folder is executed.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from lnattn.errors import CorpusError, LnattnError, one_line
from lnattn.json_files import read_json
from lnattn.progress import say

TOKENIZER_JSON = "tokenizer.json"
#: The files any of which makes a tokenizer, by itself or with others.
_FILES = (TOKENIZER_JSON, "vocab.json", "vocab.txt", "tokenizer.model")
#: All files that a tokenizer of an older kind consists of.
_PARTS = (
    *_FILES,
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
    "spiece.model",
    "sentencepiece.bpe.model",
)
#: Where the names of special tokens stand, what counts last.
_CONFIGS = ("special_tokens_map.json", "tokenizer_config.json")
_SPECIAL = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
#: Classes that take the file as it stands, so that no other names of special tokens are theirs.
_GENERIC = ("PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")
#: Settings of a tokenizer's model by which it draws how to split a text.
_BY_CHANCE = ("dropout", "nbest_size", "alpha")
#: Texts that tell tokenizers apart: case, accents, digits, blanks, lines, signs, other scripts.
PROBES = (
    "Okay, in 20231 there were 650841823 cats.\n\n(yes)",
    "new york",
    " New  York\tÉcole cafe\u0301 ﬁn ½",
    "I'm sure they'LL say 'don't'",
    "snake_case = f(x)  # 3.14\r\n    return",
    "日本語 текст 🙂",
    "…“quotes”—dash",
)


@contextmanager
def tokenizer_errors(
    what: str, raises: type[LnattnError] = CorpusError, mend: str = "mend it, or fetch it again"
) -> Iterator[None]:
    """Turn whatever a tokenizer's libraries raise into one sentence that begins with `what`.

    A panic in their Rust code is no Exception, and would pass through every handler of one.
    """
    try:
        yield
    except LnattnError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = one_line(error) or type(error).__name__
        raise raises(f"{what} ({reason}); {mend}.") from error


def load_tokenizer(place: Path | str, rows: int | None = None) -> Any:
    """The tokenizer of a local folder, or of one tokenizer.json.

    tokenizer.json is taken as it stands. A folder without one, but with the older vocab.json and
    merges.txt, vocab.txt or tokenizer.model, gives what transformers makes of these.
    rows: how many embeddings the model has. Added tokens whose ids are `rows` or more (Gemma 3's
    for an image) are left out, and a line says so: a text that spells one is read by its letters.
    Raises `CorpusError` where there is no tokenizer, it cannot be read, or is another model's.
    """
    place = Path(place)
    file = place / TOKENIZER_JSON if place.is_dir() else place
    if file.is_file():
        return _as_the_file_says(file, rows)
    if not any((place / name).is_file() for name in _FILES):
        raise CorpusError(f"{place} holds no tokenizer.json; put the model's own there.")
    with tokenizer_errors(f"transformers cannot read the tokenizer in {place}"):
        made = _by_class(place)
        if not hasattr(made, "backend_tokenizer"):
            raise CorpusError(
                f"{type(made).__name__} in {place} is no fast tokenizer; convert it to a "
                "tokenizer.json."
            )
        # Old files do not say of each other whether they belong together; their sum must.
        _check(Tokenizer.from_str(made.backend_tokenizer.to_str()), place)
        plain = without_chance(made.backend_tokenizer, f"the tokenizer in {place}")
        if plain is not made.backend_tokenizer:
            made.backend_tokenizer.model = plain.model
        made.all_special_ids  # noqa: B018  (some settings are looked at only here)
    _check_ids(made.get_vocab(), rows, place)
    return made


def without_chance(backend: Tokenizer, what: str) -> Tokenizer:
    """The tokenizer that gives a text the same tokens each time; says so where this one would not.

    BPE with dropout and Unigram with sampling split a text by chance, for training. what: how a
    line calls the tokenizer.
    """
    parts = json.loads(backend.to_str())
    model = parts["model"]
    # Of Unigram's two settings the file keeps none.
    dropped = [n for n in _BY_CHANCE if model.get(n) or getattr(backend.model, n, None)]
    if not dropped:
        return backend
    say(
        f"{what} splits texts by chance ({', '.join(dropped)}), as for training; that is switched "
        "off here, so that a text has the same tokens each time."
    )
    model |= {name: None for name in dropped if name in model}
    return Tokenizer.from_str(json.dumps(parts))


def disagreement(folder: Path | str) -> str | None:
    """An example on which transformers' own class gives other ids than tokenizer.json, in words.

    None where both agree on all of `PROBES`, and where there is nothing to compare.
    """
    folder = Path(folder)
    file = folder / TOKENIZER_JSON
    if not file.is_file():
        return None
    try:
        with tokenizer_errors(str(folder)):
            rebuilt = _by_class(folder)
            backend = Tokenizer.from_str(rebuilt.backend_tokenizer.to_str())
    except LnattnError as error:
        return f"transformers cannot make its class of tokenizer.json ({error}); the file counts."
    by_file = Tokenizer.from_file(str(file))
    for text in PROBES:
        ours = by_file.encode(text, add_special_tokens=False)
        theirs = backend.encode(text, add_special_tokens=False)
        if ours.ids != theirs.ids:
            return (
                f"transformers' {type(rebuilt).__name__} gives {text!r} {len(theirs)} tokens "
                f"{theirs.tokens} where tokenizer.json gives {len(ours)}, {ours.tokens}; "
                "the file counts."
            )
    return None


def _as_the_file_says(file: Path, rows: int | None) -> Any:
    what = f"tokenizer.json in {file.parent} cannot be read"
    if file.name != TOKENIZER_JSON:
        what = f"{file} holds no tokenizer that can be read"
    settings = _settings(file.parent) if file.name == TOKENIZER_JSON else {}
    with tokenizer_errors(what):
        read = without_chance(Tokenizer.from_file(str(file)), f"the tokenizer in {file.parent}")
        backend = _within(read, rows, file.parent)
        _check(backend, file.parent)
        known = backend.get_vocab(with_added_tokens=True)
        names = {name: token for name, token in _special_tokens(settings).items() if token in known}
        if file.name == TOKENIZER_JSON and settings.get("tokenizer_class") not in _GENERIC:
            names = {**_special_tokens_by_class(file.parent, known), **names}
        added = backend.get_added_tokens_decoder().values()
        special = [str(token) for token in added if token.special]
        from transformers import PreTrainedTokenizerFast  # takes seconds, with PyTorch

        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=backend,
            # A model that adds embeddings of types is not to be fed them by accident.
            model_input_names=["input_ids", "attention_mask"],
            extra_special_tokens=[token for token in special if token not in names.values()],
            **_plain_settings(settings),
        )
        for name, token in names.items():  # named, and not added once more
            setattr(tokenizer, name, token)
        # Whatever transformers has put in its place, or beside it.
        tokenizer.backend_tokenizer.post_processor = backend.post_processor
        if tokenizer.backend_tokenizer.get_vocab() != known:
            raise CorpusError(f"transformers changes the tokens of {file}; use another version.")
    return tokenizer


def _within(backend: Tokenizer, rows: int | None, folder: Path) -> Tokenizer:
    """The tokenizer without added tokens that a model has no embeddings for."""
    _check_ids(backend.get_vocab(with_added_tokens=False), rows, folder)
    added = backend.get_added_tokens_decoder()
    beyond = [str(token) for index, token in sorted(added.items()) if index >= (rows or math.inf)]
    if not beyond:
        return backend
    say(
        f"the tokenizer in {folder} has tokens that the model has no embeddings for, which are "
        f"left out: {one_line(', '.join(beyond), 100)}."
    )
    parts = json.loads(backend.to_str())
    parts["added_tokens"] = [token for token in parts["added_tokens"] if token["id"] < rows]
    return Tokenizer.from_str(json.dumps(parts))


def _check_ids(vocabulary: Mapping[str, int], rows: int | None, folder: Path) -> None:
    """Refuse a vocabulary with ids that a model of so many embeddings does not have."""
    highest = max(vocabulary.values(), default=0)
    if rows is not None and highest >= rows:
        raise CorpusError(
            f"the tokenizer in {folder} has a token with the id {highest}, but the model has "
            f"embeddings for the ids 0 to {rows - 1} only; give the one of these weights."
        )


def _settings(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json and special_tokens_map.json together; what cannot be read is absent."""
    settings: dict[str, Any] = {}
    for name in _CONFIGS:
        if (folder / name).is_file():
            settings |= read_json(folder / name, CorpusError, mend="mend it, or delete it")
    return settings


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """bos_token, eos_token …, as far as they are named: by their text, or as an object with it."""
    named = {}
    for name in _SPECIAL:
        token = settings.get(name)
        text = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(text, str) and text:
            named[name] = text
    return named


def _special_tokens_by_class(folder: Path, known: Mapping[str, int]) -> dict[str, str]:
    """The names that transformers' class gives to tokens of the file: GPT-2's says none itself."""
    try:
        with tokenizer_errors(str(folder)):
            tokenizer = _by_class(folder)
            tokens = {name: getattr(tokenizer, name) for name in _SPECIAL}
    except LnattnError:
        return {}
    return {name: token for name, token in tokens.items() if token and token in known}


def _plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What else of tokenizer_config.json is heeded: nothing that changes ids."""
    plain: dict[str, Any] = {}
    longest = settings.get("model_max_length")
    if isinstance(longest, int) and not isinstance(longest, bool) and longest > 0:
        plain["model_max_length"] = longest
    tidied = settings.get("clean_up_tokenization_spaces")
    if isinstance(tidied, bool):
        plain["clean_up_tokenization_spaces"] = tidied
    return plain


def _by_class(folder: Path) -> Any:
    """What transformers makes of a folder, by the class that it names or that suits its model.

    Of config.json it sees the model's type alone: with all of it, it would make a configuration,
    which takes for ever where that claims a milliard of labels.
    """
    with tempfile.TemporaryDirectory(prefix="lnattn-") as name:
        place = Path(name)
        for file in _PARTS:
            if (folder / file).is_file():
                (place / file).symlink_to((folder / file).resolve())
        if (folder / "config.json").is_file():
            kind = read_json(folder / "config.json", CorpusError, mend="mend it").get("model_type")
            if isinstance(kind, str):
                (place / "config.json").write_text(json.dumps({"model_type": kind}), "utf-8")
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(name, local_files_only=True, trust_remote_code=False)


def _check(tokenizer: Tokenizer, place: Path) -> None:
    """Refuse a tokenizer that would fail on a text, as far as its file tells."""
    model = tokenizer.model
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    # The model knows nothing of added tokens.
    if isinstance(model, WordPiece) and model.unk_token not in vocabulary:
        raise CorpusError(
            f"the tokenizer in {place} lacks its token for unknown words, {model.unk_token!r}; "
            "fetch its files again."
        )
    if not vocabulary:
        raise CorpusError(
            f"the tokenizer in {place} has an empty vocabulary: a file is missing, such as "
            "tokenizer.json, or vocab.json with merges.txt; fetch its files again."
        )
    tokenizer.encode(min(vocabulary, key=vocabulary.__getitem__), add_special_tokens=True)
