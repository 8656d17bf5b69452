"""The checker of accessibility looks at what a reader sees, not at a colour on its way there."""

from __future__ import annotations

import accessibility
import pytest

pytestmark = pytest.mark.skipif(
    accessibility.find() is None, reason="axe-core absent: pip install .[test]"
)
PAGE = """data:text/html,<html lang="en"><title>A page</title><body style="background: white">
<main><h1 style="color: %s; transition: color 60s">A heading</h1></main></body></html>"""


@pytest.mark.parametrize(
    ("before", "after", "wrong"), [("silver", "black", 0), ("black", "silver", 1)]
)
def test_a_colour_that_changes_is_judged_by_the_one_it_becomes(chromium, before, after, wrong):
    tab = chromium.open()
    try:
        tab.go(PAGE % before)
        tab.evaluate("getComputedStyle(document.querySelector('h1')).color")
        tab.evaluate(f"document.querySelector('h1').style.color = {after!r}")
        found = accessibility.violations(tab)
    finally:
        tab.close()
    assert sum("color-contrast" in line for line in found) == wrong, found
