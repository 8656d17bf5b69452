"""What a refusal must name, in whatever words it says so: for `match=` of `pytest.raises`."""

from __future__ import annotations

import re


def naming(*pieces: object) -> str:
    """A pattern that a sentence has which names all of these, in any order."""
    return "(?s)" + "".join(f"(?=.*{re.escape(str(piece))})" for piece in pieces)
