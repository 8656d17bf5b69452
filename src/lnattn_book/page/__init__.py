"""What a notebook calls: it names its model first, and asks last whether its sentences hold.

Nothing here loads PyTorch or Matplotlib: a build reads what a page recorded without them.
"""

from lnattn_book.page.asking import asking
from lnattn_book.page.banner import Banner, choose, describe, start
from lnattn_book.page.checks import Check, says, table
from lnattn_book.page.first_cell import FirstCellError, find_model, given

__all__ = [
    "Banner",
    "Check",
    "FirstCellError",
    "asking",
    "choose",
    "describe",
    "find_model",
    "given",
    "says",
    "start",
    "table",
]
