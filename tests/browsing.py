"""A headless Chromium, driven by Playwright: tabs that note requests and complaints of a page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

#: Playwright would fetch a browser of its own; the system's is used, which is started without
#: what looks for its maker's hosts.
FLAGS = (
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = (390, 844)
DESKTOP = (1440, 900)
#: Milliseconds that a busy machine may take for what is quick on an idle one.
PATIENCE = 300_000


def executable() -> str | None:
    """The path of an installed Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """One headless browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(), args=list(FLAGS), chromium_sandbox=False
        )
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page with a profile of its own, which notes requests, dialogs and errors on the console."""

    def __init__(self, browser: Browser, size: tuple[int, int], *, theme: str = "light") -> None:
        width, height = size
        is_phone = width < 600
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            device_scale_factor=2 if is_phone else 1,
            is_mobile=is_phone,
            has_touch=is_phone,
            color_scheme=theme,
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.set_default_navigation_timeout(PATIENCE)
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on(
            "requestfailed", lambda request: self.problems.append(f"failed: {request.url}")
        )
        self.page.on("response", self._note_response)
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", self._note_dialog)

    def _note_response(self, response: Any) -> None:
        if response.status >= 400:
            self.problems.append(f"status {response.status}: {response.url}")

    def _note_message(self, message: Any) -> None:
        if message.type in {"error", "assert"}:
            self.problems.append(message.text)

    def _note_dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def go(self, address: str) -> None:
        """Load the address and wait until the page and its mathematics are complete."""
        self.page.goto(address, wait_until="load")
        self.page.evaluate("window.MathJax?.startup?.promise?.then(() => true) ?? true")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        return self.page.evaluate(expression)

    def until(self, condition: str) -> None:
        """Wait until a JavaScript expression holds."""
        self.page.wait_for_function(condition, polling=20)

    def resize(self, size: tuple[int, int]) -> None:
        self.page.set_viewport_size({"width": size[0], "height": size[1]})

    def screenshot(self, path: Path) -> None:
        self.page.screenshot(path=path)

    def close(self) -> None:
        self.context.close()


@contextmanager
def tab_in(browser: Browser, size: tuple[int, int] = DESKTOP, **options: Any) -> Iterator[Tab]:
    tab = Tab(browser, size, **options)
    try:
        yield tab
    finally:
        tab.close()


# ---- Accessibility -------------------------------------------------------------------------------

#: Impacts that fail a test; axe calls the lesser ones minor and moderate.
GRAVE = ("serious", "critical")
#: The Web Content Accessibility Guidelines 2.1, levels A and AA.
GUIDELINES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
CONTRAST = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
# A colour that is still changing, as after a change of theme, is none that a reader sees.
_STILL = "*, *::before, *::after {transition: none !important; animation: none !important}"


def violations(tab: Tab, rules: dict[str, Any] = GUIDELINES) -> list[str]:
    """Grave violations that axe-core finds on the page as it is now, a line for each rule."""
    tab.page.add_style_tag(content=_STILL)
    options = {"runOnly": rules, "resultTypes": ["violations"], "preload": False}
    answer = Axe().run(tab.page, options=options).response
    return [_line(rule) for rule in answer["violations"] if rule["impact"] in GRAVE]


def _line(rule: dict[str, Any]) -> str:
    places = [" ".join(map(str, node["target"])) for node in rule["nodes"]]
    more = f" and {len(places) - 4} more" if len(places) > 4 else ""
    return f"{rule['id']}: {rule['help']}: {' | '.join(places[:4])}{more}"
