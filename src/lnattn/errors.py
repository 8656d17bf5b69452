"""The errors that lnattn raises for bad input: one clear sentence each."""


class LnattnError(Exception):
    """Base class: catch this to catch every error that lnattn raises on purpose."""


class CheckpointError(LnattnError, ValueError):
    """A checkpoint is missing, damaged, not supported, or holds unusable weights."""


class HubError(CheckpointError):
    """The Hugging Face hub could not be reached, or refused, and nothing is cached."""


class ShapeError(LnattnError, ValueError):
    """A tensor's shape, dtype or finiteness contradicts what the formula needs."""


class TokenError(LnattnError, ValueError):
    """A token id or a position lies outside what the model was trained for."""


class CorpusError(LnattnError, ValueError):
    """A corpus is missing, empty, damaged, or changed since it was last read."""


class ResultError(LnattnError, ValueError):
    """A frozen result is missing, damaged, or was made by something else."""
