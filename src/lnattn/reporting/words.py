"""What reports and figures call the terms of a score, and the colour of each."""

from __future__ import annotations

#: The six terms of a score: each keeps one plain name, everywhere. The arrow goes from the query's
#: part to the key's.
TERM_NAMES: dict[str, str] = {
    "ee": "token → token",
    "ep": "token → position",
    "pe": "position → token",
    "pp": "position → position",
    "e": "any → token",
    "p": "any → position",
}
#: With rotary or relative positions.
DISTANCE_NAMES: dict[str, str] = {
    "ee": TERM_NAMES["ee"],
    "ed": "token → distance",
    "e": TERM_NAMES["e"],
    "d": "any → distance",
}
#: Colours of Okabe and Ito, which colour-blind readers tell apart; what is kin has one colour.
TERM_COLOURS: dict[str, str] = {
    "ee": "#0072B2",
    "ep": "#009E73",
    "pe": "#CC79A7",
    "pp": "#D55E00",
    "e": "#56B4E9",
    "p": "#E69F00",
}
DISTANCE_COLOURS: dict[str, str] = {
    "ee": TERM_COLOURS["ee"],
    "ed": TERM_COLOURS["ep"],
    "e": TERM_COLOURS["e"],
    "d": TERM_COLOURS["pp"],
}
#: What a head does, by the terms that make its attention: words, and their terms.
KINDS: dict[str, frozenset[str]] = {
    "compares tokens": frozenset({"ee"}),
    "reads constants": frozenset({"e", "p"}),
    "looks by place": frozenset({"ep", "pe", "pp", "ed", "d"}),
}
