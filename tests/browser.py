"""A headless Chromium, driven over its DevTools protocol with the standard library alone.

The protocol runs over two pipes (file descriptors 3 and 4 of the browser), messages ended by a
zero byte, so no WebSocket client is needed. (Playwright drives the same Chromium, but would be
165 MB to install in place of these lines.)
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find() -> str | None:
    """The path of an installed Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One browser process with a fresh profile; close it, or use it as a context."""

    def __init__(self, executable: str, patience: float = 60.0) -> None:
        self.patience = patience
        self._ids = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._arrived = threading.Condition()
        self._events: dict[str, queue.Queue[dict[str, Any]]] = {}
        self._profile = tempfile.TemporaryDirectory(prefix="lnattn-browser-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def place_pipes() -> None:
            # Both ends may already be numbered 3 or 4: move them out of the way first.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            high_reading, high_writing = os.dup2(reading, 50), os.dup2(writing, 51)
            os.dup2(high_reading, 3)
            os.dup2(high_writing, 4)

        self._process = subprocess.Popen(
            [executable, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=place_pipes,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._write)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._profile.name, ignore_errors=True)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its result."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        with self._arrived:
            if not self._arrived.wait_for(lambda: number in self._answers, self.patience):
                raise TimeoutError(f"the browser did not answer {method} in {self.patience} s")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, width: int = 1280, height: int = 900) -> Page:
        """A new, empty page of that size in CSS pixels."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._events.setdefault(session, queue.Queue())
        page = Page(self, session, target)
        for domain in ("Page", "Network", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        return page

    def _listen(self) -> None:
        waiting = b""
        while True:
            try:
                chunk = os.read(self._read, 1 << 16)
            except OSError:
                return
            if not chunk:
                return
            *complete, waiting = (waiting + chunk).split(b"\0")
            for text in complete:
                message = json.loads(text)
                if "id" in message:
                    with self._arrived:
                        self._answers[message["id"]] = message
                        self._arrived.notify_all()
                elif session := message.get("sessionId"):
                    self._events.setdefault(session, queue.Queue()).put(message)


class Page:
    """One tab. `events` collects all that the browser has told about it so far."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser, self.session, self.target = browser, session, target
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if width < 600 else 1,
            mobile=width < 600,
        )

    def go(self, address: str) -> None:
        """Load the address and wait until the page and its mathematics are complete."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.wait_for("Page.loadEventFired")
        self.evaluate("window.MathJax?.startup?.promise ?? null")
        self.collect()

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until a JavaScript expression holds; an error where it does not in a while."""
        self.evaluate(f"""new Promise((done, fail) => {{
          const limit = Date.now() + {1000 * self.browser.patience};
          (function look() {{
            if ({condition}) done(true);
            else if (Date.now() > limit) fail(new Error({json.dumps(condition)}));
            else setTimeout(look, 10);
          }})();
        }})""")

    def wait_for(self, method: str) -> dict[str, Any]:
        """The next event of this kind."""
        until = time.monotonic() + self.browser.patience
        arrived = self.browser._events[self.session]
        while True:
            try:
                message = arrived.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"no {method} came in {self.browser.patience} s") from None
            self.events.append(message)
            if message["method"] == method:
                return message

    def collect(self) -> None:
        """Move all events that have arrived into `events`."""
        arrived = self.browser._events[self.session]
        while not arrived.empty():
            self.events.append(arrived.get())

    def of(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event["method"] == method]

    def screenshot(self, path: Path, whole: bool = False) -> None:
        import base64

        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(data["data"]))

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)
