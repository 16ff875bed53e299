"""A headless Chromium or Chrome, driven over the DevTools protocol through a pipe: no driver, no library, no port."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Optional

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

OPTIONS = (
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


def find_browser() -> Optional[str]:
    """Return the path of a browser, ``None`` when there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One page of a browser.

    Args:
        program: its path.
        profile: an empty folder.
    """

    def __init__(self, program: str, profile: Path) -> None:
        # the browser reads commands from descriptor 3 and writes answers to 4
        read_command, self._write = os.pipe()
        self._read, write_answer = os.pipe()
        fds = (read_command, write_answer)
        script = f'exec "$0" "$@" 3<&{fds[0]} 4>&{fds[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, program, *OPTIONS, f"--user-data-dir={profile}"],
            pass_fds=fds,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for descriptor in fds:
            os.close(descriptor)
        self._rest = b""
        self._number = 0
        self._session: Optional[str] = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command; return its result. What the browser tells meanwhile is added to :attr:`events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, path: Path, *, width: int, dark: bool = False, scripts: bool = True) -> None:
        """Load a page.

        Args:
            path: of the file.
            width: of the window, pixels.
            dark: whether the user prefers dark colours.
            scripts: whether the page may run JavaScript.
        """
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + 30
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            assert time.monotonic() < deadline, "the page has not loaded"
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, evaluated by the tools even where the page may run none."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """Write a picture of the window as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    @property
    def requests(self) -> list[str]:
        """What was loaded, or was to be."""
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [parameters["request"]["url"] for parameters in sent]

    @property
    def complaints(self) -> list[str]:
        """Errors and messages on the console."""
        named = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in named]

    def close(self) -> None:
        """End the browser."""
        self._session = None
        try:
            self.call("Browser.close")
        except OSError:
            pass
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 16)
            if not more:
                raise OSError("the browser has ended")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer
