"""Pages that show what others hold are written again where that has changed, and only there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from sphinx.application import Sphinx

_STATES = "lnattn_states"


def has_changed(app: Sphinx, name: str, *facts: Any) -> bool:
    """Whether facts differ from those of the last build with this builder; they are kept.

    name: what the facts are about; facts: mappings, or anything whose `repr` says all of it.
    """
    digest = digest_of_facts(facts)
    states = dict(getattr(app.env, _STATES, {}))
    known = states.get((app.builder.name, name))
    states[app.builder.name, name] = digest
    setattr(app.env, _STATES, states)  # pickled with the environment
    return known != digest


def digest_of_facts(facts: Iterable[Any]) -> str:
    """A digest that does not depend on the order of a mapping: a page read again comes last."""
    said = [
        sorted(map(repr, fact.items())) if isinstance(fact, Mapping) else repr(fact)
        for fact in facts
    ]
    return hashlib.sha256(repr(said).encode()).hexdigest()
