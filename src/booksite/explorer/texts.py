"""Tokens as text that a page can show: whatever bytes they hold, and however hostile they are.

A vocabulary is untrusted: a token may be `</script>`, a control character, half a character, or a
lone surrogate. Nothing is cleaned here, since two tokens must stay two; instead every text travels
as a JSON string of printable ASCII, and the page shows it as text and never as markup.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from functools import cache
from typing import Any

from lnattn.errors import TokenError

#: Letters of a value that is written as it is.
_PLAIN = 2000


@cache
def _byte_of_letter() -> dict[str, int]:
    """The letter with which a byte-level vocabulary writes each of the 256 bytes, reversed.

    Bytes that print as themselves in Latin-1 are written so; the others, in order, by the letters
    from U+0100 on.
    """
    printing = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printing]
    letters = {chr(byte): byte for byte in printing}
    return letters | {chr(0x100 + place): byte for place, byte in enumerate(others)}


def text_of_bytes(data: bytes) -> str:
    """UTF-8 decoded; a byte that is part of no character becomes the surrogate U+DC00 + byte.

    (Python's `surrogateescape`.) Different bytes give different texts.
    """
    return data.decode("utf-8", errors="surrogateescape")


def token_texts(tokenizer: Any, vocab_size: int) -> list[str]:
    """The text of every token id below `vocab_size`, of a Hugging Face tokenizer.

    Pieces of a byte-level vocabulary (GPT-2's) are decoded with `text_of_bytes`. Other pieces are
    given as the vocabulary writes them: BERT's `##ing` is not the token `ing`. An id without a
    piece (vocabularies are padded) becomes an empty text.
    """
    if tokenizer is None:
        raise TokenError("this model has no tokenizer, so its tokens have no text; add one.")
    pieces = tokenizer.convert_ids_to_tokens(list(range(vocab_size)))
    if not _is_byte_level(tokenizer):
        return [piece or "" for piece in pieces]
    added = set(tokenizer.get_added_vocab())
    letters = _byte_of_letter()
    texts = []
    for piece in pieces:
        if piece and piece not in added and all(letter in letters for letter in piece):
            texts.append(text_of_bytes(bytes(letters[letter] for letter in piece)))
        else:
            texts.append(piece or "")
    return texts


def _is_byte_level(tokenizer: Any) -> bool:
    """Whether the vocabulary writes bytes as letters, by the decoder that it names."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return False
    decoder = json.loads(backend.to_str()).get("decoder") or {}
    kinds = [decoder, *decoder.get("decoders", [])]
    return any(kind.get("type") == "ByteLevel" for kind in kinds)


def script_literal(value: Any) -> str:
    """`value` as JSON that is also a safe JavaScript expression, in an HTML page or in a file.

    ASCII only: lone surrogates, U+2028 and control characters are escaped, and so are <, > and &,
    which could otherwise end a script element or begin a comment. Raises ValueError for NaN.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.replace("\x7f", "\\u007f")  # DEL is the one control character that JSON leaves


def script(name: str, value: Any) -> str:
    """A script that hands `value` to the explorer's page under `name`.

    A long value is deflated, and inflated by the browser: base64 in place of the literal.
    """
    literal = script_literal(value)
    if len(literal) <= _PLAIN:
        return f"lnattnExplorer.receive({script_literal(name)}, {literal});\n"
    # The same rows of digits lie together, so the code of their letters should change often.
    deflate = zlib.compressobj(level=9, memLevel=5)
    packed = deflate.compress(literal.encode("ascii")) + deflate.flush()
    text = base64.b64encode(packed).decode("ascii")
    return f'lnattnExplorer.receivePacked({script_literal(name)}, "{text}");\n'


def value_of(text: str) -> tuple[str, Any]:
    """Name and value of a script that `script` wrote, by the rules that JavaScript and JSON share.

    Raises ValueError for any other text.
    """
    found = re.fullmatch(r'lnattnExplorer\.(receive|receivePacked)\(("[^"]*"), (.*)\);\n', text)
    if found is None:
        raise ValueError("this is no script that hands over one value.")
    way, name, value = found.groups()
    if way == "receivePacked":
        value = zlib.decompress(base64.b64decode(json.loads(value), validate=True))
    return json.loads(name), json.loads(value)
