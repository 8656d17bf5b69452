"""Re-exports, until no module imports from here."""

from lnattn_book.claims.verdicts import *  # noqa: F403
