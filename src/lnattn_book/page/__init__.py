"""What a notebook calls: it names its model first, and asks last whether its sentences hold.

Nothing here loads PyTorch or Matplotlib: a build reads what a page recorded without them.
"""

from lnattn_book.page.banner import Banner, choose, describe, start
from lnattn_book.page.checks import Check, says, table
from lnattn_book.page.first_cell import FirstCellError, find_model, given
from lnattn_book.page.guards import asking, holds

__all__ = [
    "Banner",
    "Check",
    "FirstCellError",
    "asking",
    "choose",
    "describe",
    "find_model",
    "given",
    "holds",
    "says",
    "start",
    "table",
]
