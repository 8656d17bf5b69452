"""What the explorer's visits cost on a slow line: `python tools/slow_line.py [SITE]`.

Chromium with a line of 1.6 Mbit/s, an answer after 150 ms and a processor slowed four times, from a
plain static server that compresses nothing. Prints a table, asserts nothing: a busy machine is
slower. SITE is a built site; without it the one that is built here, or LNATTN_SITE.
"""

from __future__ import annotations

import functools
import http.server
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # the browser is the tests'

import browsing
from browsing import DESKTOP, Tab, tab_in
from playwright.sync_api import Browser
from site_pages import SITE, served

#: Bytes a second each way and milliseconds until an answer begins, as Lighthouse's slow line.
LINE = {"downloadThroughput": 200_000, "uploadThroughput": 94_000, "latency": 150}
SLOWER = 4
TYPED = "My old neighbour painted three wooden boats before winter storms reached our harbour"
FRONT, EXPLORER = "book/index.html", "book/token-explorer.html"
MODELS = ("minilm", "book-gpt2", "book-llama")
#: Until a reader gives up, in milliseconds.
PATIENCE = 300_000


class Plain(http.server.SimpleHTTPRequestHandler):
    """Serves files as they are, and says nothing."""

    def log_message(self, *_: object) -> None:
        pass


class Visit:
    """A tab on the slow line, which counts seconds and bytes since `begin`."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.bytes = 0
        line = tab.context.new_cdp_session(tab.page)
        line.send("Network.enable")
        line.send("Network.emulateNetworkConditions", {"offline": False, **LINE})
        line.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        line.on("Network.dataReceived", self._count)
        self.begin()

    def _count(self, event: dict[str, Any]) -> None:
        self.bytes += event["encodedDataLength"]

    def begin(self) -> None:
        self.begun = time.monotonic()
        self.bytes = 0

    def after(self, condition: str) -> str:
        """Seconds and megabytes until a JavaScript expression holds."""
        self.tab.page.wait_for_function(condition, polling=100, timeout=PATIENCE)
        return f"{time.monotonic() - self.begun:5.1f} s {self.bytes / 1e6:6.2f} MB"


def is_ready(part: str) -> str:
    return f"document.querySelector('[data-part={part}]').dataset.state === 'ready'"


def has_words(part: str) -> str:
    """The sentence that was typed is shown: its last word stands among the tokens."""
    words = f"document.querySelector('[data-part={part}] .words[aria-label^=Query]')"
    return f"/bour/.test({words}?.textContent ?? '') && {is_ready(part)}"


def typed_on_the_front_page(visit: Visit, base: str) -> list[tuple[str, str]]:
    visit.tab.page.goto(base + FRONT, wait_until="load", timeout=PATIENCE)
    page = visit.after(is_ready("widget"))
    visit.begin()
    visit.tab.page.fill("#widget-text", TYPED)
    return [("the page itself", page), ("a typed sentence", visit.after(has_words("widget")))]


def typed_in_the_explorer(visit: Visit, base: str, model: str) -> list[tuple[str, str]]:
    visit.tab.page.goto(base + EXPLORER, wait_until="load", timeout=PATIENCE)
    page = visit.after(is_ready("sentence"))
    visit.begin()
    visit.tab.evaluate(f"location.hash = '#model={model}&text={TYPED.replace(' ', '+')}'")
    return [("the page itself", page), ("a typed sentence", visit.after(has_words("sentence")))]


SAID = """(() => {
  const line = document.querySelector('[data-part=heads] > [role=status]:not(.arrived)');
  return line.textContent && getComputedStyle(line).visibility === 'visible';
})()"""


def heads_of_a_token(visit: Visit, base: str, model: str) -> list[tuple[str, str]]:
    visit.tab.page.goto(base + EXPLORER, wait_until="load", timeout=PATIENCE)
    visit.after(is_ready("sentence"))
    visit.begin()
    go = f"location.hash = '#model={model}'"
    visit.tab.evaluate(f"{go}; document.querySelector('[data-part=heads]').scrollIntoView()")
    seen = "getComputedStyle(document.querySelector('[data-part=heads] .head') ?? document.body)"
    first = f"document.querySelector('[data-part=heads] .head') && {seen}.visibility === 'visible'"
    return [
        ("says what it does", visit.after(SAID)),
        ("a first head", visit.after(first)),
        ("all heads, all tokens", visit.after(is_ready("heads"))),
    ]


def measure(browser: Browser, base: str) -> None:
    visits = {
        "front page": typed_on_the_front_page,
        **{
            f"{name}, {model}": functools.partial(visit, model=model)
            for name, visit in (
                ("explorer's sentence", typed_in_the_explorer),
                ("explorer's heads", heads_of_a_token),
            )
            for model in MODELS
        },
    }
    for name, visit in visits.items():
        with tab_in(browser, DESKTOP) as tab:
            for what, cost in visit(Visit(tab), base):
                print(f"{name:32} {what:24} {cost}", flush=True)


def main() -> int:
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else SITE
    if browsing.executable() is None:
        print("no Chromium is installed here; apt-get install chromium", file=sys.stderr)
        return 1
    if not (site / EXPLORER).is_file():
        print(f"{site} holds no built site; run: make book", file=sys.stderr)
        return 1
    print(f"before: {os.getloadavg()[0]:.1f} processes at work on {os.cpu_count()} processors")
    with browsing.chromium() as browser, served(site, Plain) as base:
        measure(browser, base)
    print(f"after: {os.getloadavg()[0]:.1f} at work")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
