"""What a page of the book loads, and how soon one can use it: `python tests/first_view.py`.

Opens the built site in the installed Chromium, with nothing cached, over a network and on a
processor that Chromium slows down, several times; prints the median of each time. The site is
served compressed, as web hosts do, but over HTTP/1, one connection for each file: most hosts are
quicker.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass

import browser
from site_pages import SITE, served

FIRST_PAGE = "book/index.html"


@dataclass(frozen=True)
class Network:
    """Round trip in milliseconds, megabits a second, and how much slower the processor is."""

    delay: int
    megabits: float
    slower: int = 1


#: As Lighthouse names and throttles them; a phone's processor goes with the slow one.
NETWORKS = {"fast 4G": Network(40, 10.0), "slow 4G": Network(150, 1.6, 4)}

#: Records tasks above 50 ms, from the start: while one runs, the page does not react.
_WATCH = """
window.lastLongTask = 0;
new PerformanceObserver(list => {
  for (const task of list.getEntries()) {
    window.lastLongTask = Math.max(window.lastLongTask, task.startTime + task.duration);
  }
}).observe({type: 'longtask', buffered: true});
"""
_TIMES = """(() => {
  const page = performance.getEntriesByType('navigation')[0];
  const paint = performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN;
  const ready = page.domContentLoadedEventEnd;
  return {
    'first paint': paint,
    'interactive': Math.max(paint, ready, Math.min(window.lastLongTask, page.loadEventEnd)),
    'loaded': page.loadEventEnd,
  };
})()"""


#: The topmost part of the explorer shows its data; those below wait until a reader comes near.
_FILLED = "(place => !place || place.dataset.state)(document.querySelector('.token-explorer'))"


def measure(
    running: browser.Browser, address: str, network: Network, width: int = 360
) -> dict[str, float]:
    """Kilobytes over the network without a scroll, and milliseconds until the page …

    first paint: shows its text; interactive: also has run its scripts (`DOMContentLoaded`) and
    does nothing that lasts above 50 ms; loaded: has loaded everything that it names.
    """
    tab = running.open(width, 740)
    try:
        tab.call("Network.setCacheDisabled", cacheDisabled=True)
        speed = network.megabits * 1e6 / 8
        tab.call(
            "Network.emulateNetworkConditions",
            offline=False,
            latency=network.delay,
            downloadThroughput=speed,
            uploadThroughput=speed,
        )
        tab.call("Emulation.setCPUThrottlingRate", rate=network.slower)
        tab.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        tab.go(address)
        tab.until(_FILLED)
        tab.evaluate("new Promise(done => setTimeout(done, 300))")
        tab.collect()
        # A font within a style sheet is counted with the sheet.
        within = {
            event["requestId"]
            for event in tab.of("Network.requestWillBeSent")
            if event["request"]["url"].startswith("data:")
        }
        size = sum(
            event["encodedDataLength"]
            for event in tab.of("Network.loadingFinished")
            if event["requestId"] not in within
        )
        return {"kilobytes": size / 1e3, **tab.evaluate(_TIMES)}
    finally:
        tab.close()


def medians(runs: list[dict[str, float]]) -> dict[str, int]:
    """The median of each number over the runs, rounded."""
    return {name: round(statistics.median(run[name] for run in runs)) for name in runs[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("page", nargs="?", default=FIRST_PAGE, help="of the site (%(default)s)")
    parser.add_argument("--runs", type=int, default=7, help="how often (%(default)s)")
    options = parser.parse_args()
    executable = browser.find()
    if executable is None:
        print("no Chromium is installed here; apt-get install chromium", file=sys.stderr)
        return 1
    if not (SITE / options.page).is_file():
        print(f"{SITE / options.page} is not there; run: make book", file=sys.stderr)
        return 1
    with browser.Browser(executable) as running, served(SITE) as base:
        for name, network in NETWORKS.items():
            runs = [measure(running, base + options.page, network) for _ in range(options.runs)]
            spread = [round(run["interactive"]) for run in runs]
            print(
                f"{name} ({network.megabits} Mbit/s, {network.delay} ms, processor "
                f"÷ {network.slower}): "
                + ", ".join(f"{what} {value}" for what, value in medians(runs).items())
                + f"; interactive in {len(runs)} runs: {min(spread)} to {max(spread)} ms"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
