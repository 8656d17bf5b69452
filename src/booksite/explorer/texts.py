"""Data as small scripts, which a page may load even from a disk.

A page that was opened from a file may not fetch other files, but it may load scripts. So every part
is a script that hands one value to the page. A vocabulary is untrusted: a token may be `</script>`,
a control character, half a character or a lone surrogate. Nothing is cleaned, since two tokens must
stay two; every text travels as a JSON string of printable ASCII, and the page shows it as text.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

#: Letters of a value that is written as it is.
_PLAIN = 2000


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
    """A script that hands `value`, bytes or what JSON can hold, to the page under `name`.

    Bytes and long values are deflated, and inflated by the browser: base64 in place of a literal.
    """
    literal = "" if isinstance(value, bytes) else script_literal(value)
    if literal and len(literal) <= _PLAIN:
        return f"lnattnExplorer.receive({script_literal(name)}, {literal});\n"
    is_json = "true" if literal else "false"
    text = base64.b64encode(zlib.compress(literal.encode("ascii") or value, 9)).decode("ascii")
    return f'lnattnExplorer.receivePacked({script_literal(name)}, "{text}", {is_json});\n'


def json_in(text: str) -> Any:
    """The value that `script` wrote, where JSON holds it. Raises ValueError for any other text."""
    if written := re.fullmatch(r'lnattnExplorer\.receive\("[^"]*", (.*)\);\n', text):
        return json.loads(written[1])
    deflated = re.fullmatch(r'lnattnExplorer\.receivePacked\("[^"]*", "([^"]*)", true\);\n', text)
    if deflated is None:
        raise ValueError("this is no script that hands over a value of JSON.")
    return json.loads(zlib.decompress(base64.b64decode(deflated[1])))
