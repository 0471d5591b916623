"""Pages in a headless Chromium: what they log, request and look like, and what axe-core says of them.

Needs the package selenium, and the programs ``chromium`` and ``chromedriver`` of one release. ``Browser`` keeps one
process; each :meth:`Browser.open` starts with empty logs, at the requested width and colours.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import threading
import time
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NODE_MODULES: Final = os.environ.get("SBFORMAT_NODE_MODULES")
"""A folder with the packages axe-core and pyodide; ``nox -s browser`` makes one."""
PICTURES: Final = os.environ.get("SBFORMAT_PICTURES")
"""A folder in which the pictures of pages are kept, to look at."""
CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")
WIDE: Final = 1280
NARROW: Final = 390
HEIGHT: Final = 844
OPTIONS: Final = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
    "--lang=en-US",
)
HARMLESS: Final = ("data:", "blob:")
"""Beginnings of addresses that leave the page without a request."""


def find_browser() -> tuple[str, str] | None:
    """Return the paths of Chromium and of its driver; None when one is not installed."""
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    driver = shutil.which("chromedriver")
    return None if chromium is None or driver is None else (chromium, driver)


def find_axe() -> Path | None:
    """Return the script of axe-core; None when it is not installed."""
    path = Path(NODE_MODULES or "") / "axe-core" / "axe.min.js"
    return path if NODE_MODULES and path.is_file() else None


class Site(NamedTuple):
    """A folder that a server of this process serves."""

    address: str
    requests: list[str]
    """The paths that were requested."""


@contextmanager
def serve(folder: Path) -> Iterator[Site]:
    """Serve a folder on this machine, as long as the block runs."""
    requests: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            requests.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Site(f"http://127.0.0.1:{server.server_port}/", requests)
        server.shutdown()
        thread.join()


def wait_for(condition: Callable[[], Any]) -> Any:
    """Wait until a condition is true; return its value."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    message = "the page did not change within 300 seconds"
    raise AssertionError(message)


class Violation(NamedTuple):
    """A rule of axe-core that a page breaks."""

    rule: str
    impact: str
    help: str
    targets: tuple[str, ...]


class Browser:
    """A Chromium without a window.

    :param chromium: the path of the browser
    :param driver: the path of chromedriver
    """

    def __init__(self, chromium: str, driver: str) -> None:
        from selenium.webdriver import Chrome, ChromeOptions, ChromeService

        options = ChromeOptions()
        options.binary_location = chromium
        for option in (*OPTIONS, *(("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ())):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = Chrome(options=options, service=ChromeService(driver))
        self.driver.set_page_load_timeout(500)
        self.driver.set_script_timeout(500)
        self._console: list[str] = []
        self._requests: list[str] = []

    def close(self) -> None:
        """End the process."""
        self.driver.quit()

    def open(
        self, page: Path | str, *, width: int = WIDE, scheme: Literal["light", "dark"] = "light",
        media: Literal["screen", "print"] = "screen",
    ) -> None:  # fmt: skip
        """Open a page.

        :param page: a file, or an address
        :param width: of the window, in pixels
        :param scheme: the colours that the user prefers
        :param media: print shows the page as it is printed
        """
        self.driver.get("about:blank")
        self._read_logs()
        self._console, self._requests = [], []
        self.resize(width)
        self.set_media(media, scheme)
        self.driver.get(page if isinstance(page, str) else page.as_uri())

    def resize(self, width: int, height: int = HEIGHT) -> None:
        """Set the size of the window, in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def set_media(self, media: str, scheme: str, *, motion: str = "reduce") -> None:
        """Set what media queries see."""
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
        rows = [{"name": name, "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": rows})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function in the page, which its Content-Security-Policy does not stop."""
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other, on the element with the focus."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def _read_logs(self) -> None:
        self._console += [f"{row['level']}: {row['message']}" for row in self.driver.get_log("browser")]
        for row in self.driver.get_log("performance"):
            message = json.loads(row["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self._requests.append(message["params"]["request"]["url"])

    def list_console(self) -> list[str]:
        """What the page wrote to the console since it was opened; what its policy blocked is written there, too."""
        self._read_logs()
        return list(self._console)

    def list_requests(self) -> list[str]:
        """The addresses that the page requested, without itself and what it contains."""
        self._read_logs()
        own = self.run("return location.href.split('#')[0]")
        return [address for address in self._requests if address.split("#")[0] != own and not is_harmless(address)]

    def find_overflow(self) -> list[str]:
        """Elements that are wider than the window, so that the page scrolls sideways; empty when it does not."""
        return list(self.run(_OVERFLOW))

    def find_violations(self, *disabled: str, within: str = "html") -> list[Violation]:
        """What axe-core finds with all its rules.

        :param disabled: rules that are left out
        :param within: a selector of the elements that are examined
        """
        axe = find_axe()
        assert axe is not None
        self.run(axe.read_text("utf-8"))
        options = {"resultTypes": ["violations"], "rules": {rule: {"enabled": False} for rule in disabled}}
        found = self.driver.execute_async_script(_AXE, options, within)
        assert "error" not in found, found["error"]
        return [Violation(row[0], row[1], row[2], tuple(row[3])) for row in found["rows"]]

    def picture(self, name: str | None = None, *, whole: bool = True) -> bytes:
        """Return a PNG of the page, and keep it in the folder of pictures when there is one.

        :param whole: the whole page, up to 8,000 pixels; otherwise the window
        """
        box = self.run("return [document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": box[0], "height": min(box[1], 8000), "scale": 1}
        options = {"format": "png", "captureBeyondViewport": True, "clip": clip} if whole else {"format": "png"}
        data = base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"])
        if name is not None and PICTURES:
            Path(PICTURES).mkdir(parents=True, exist_ok=True)
            (Path(PICTURES) / f"{name}.png").write_bytes(data)
        return data

    def print_pages(self, name: str | None = None) -> bytes:
        """Return the page as a PDF of A4 pages, and keep it in the folder of pictures when there is one."""
        options = {"printBackground": False, "paperWidth": 8.27, "paperHeight": 11.69}
        data = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", options)["data"])
        if name is not None and PICTURES:
            Path(PICTURES).mkdir(parents=True, exist_ok=True)
            (Path(PICTURES) / f"{name}.pdf").write_bytes(data)
        return data


def is_harmless(address: str) -> bool:
    """Return whether an address is content of the page itself."""
    return address.startswith(HARMLESS)


_OVERFLOW: Final = """
const width = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth <= width) return [];
return [...document.querySelectorAll("body *")]
  .filter((element) => element.getBoundingClientRect().right > width + 1
    || (element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX === "visible"))
  .map((element) => `${element.tagName.toLowerCase()}.${element.getAttribute("class") || ""}`)
  .slice(0, 20).concat(["the page"]);
"""
_AXE: Final = """
const done = arguments[arguments.length - 1];
axe.run(arguments[1], arguments[0]).then(
  (result) => done({rows: result.violations.map((row) => [
    row.id, row.impact || "", row.help,
    row.nodes.slice(0, 5).map((node) => {
      const check = node.any[0] || node.all[0] || node.none[0] || {};
      return `${node.target.flat().join(" ")}: ${check.message}`;
    }),
  ])}),
  (error) => done({error: String(error)}));
"""
