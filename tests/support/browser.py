"""A real browser without further packages: Debian's chromium, driven over its debugging pipe.

`find` names the program; where there is none and the machine lets one install packages, `install` fetches it once.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
_PAGE_FAULTS = """
(() => {
  const faults = [];
  const seen = (e) => { const s = getComputedStyle(e); const r = e.getBoundingClientRect();
    return s.visibility !== "hidden" && s.display !== "none" && r.width > 0 && r.height > 0; };
  // Nothing wider than the page.
  if (document.documentElement.scrollWidth > innerWidth + 1)
    faults.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}`);
  // Drawings are there, have a size and a name.
  for (const svg of document.querySelectorAll("svg")) {
    if (!svg.checkVisibility()) continue; // left out on purpose, as on paper
    const r = svg.getBoundingClientRect();
    if (r.width < 40 || r.height < 40) faults.push("a drawing without a size");
    if (!svg.getAttribute("aria-label")) faults.push("a drawing without a text for those who cannot see it");
    if (!svg.querySelector("path, use")) faults.push("an empty drawing");
  }
  // Every control, picture and region has a name; headings go down one level at a time; identifiers are unique.
  for (const e of document.querySelectorAll("button, a"))
    if (!e.textContent.trim() && !e.getAttribute("aria-label")) faults.push("a control without a name");
  for (const e of document.querySelectorAll("[tabindex]"))
    if (!e.getAttribute("aria-label") && !e.querySelector("title")) faults.push("a region without a name");
  let level = 0;
  for (const h of document.querySelectorAll("h1,h2,h3,h4")) {
    const own = Number(h.tagName[1]);
    if (own > level + 1) faults.push(`heading ${h.textContent} skips a level`);
    level = own;
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) faults.push("an identifier occurs twice");
  if (!document.documentElement.lang || !document.title) faults.push("no language or title");
  for (const t of document.querySelectorAll("table"))
    if (!t.querySelector("th") && !t.caption && !t.closest("details, .card")) faults.push("a table without a heading");
  // Texts of leaves do not lie on each other.
  const leaves = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, title") || !seen(parent)) continue;
    if (parent.closest("details:not([open])") && !parent.closest("summary")) continue;
    const turned = parent.getScreenCTM ? Math.abs(parent.getScreenCTM().b) > 0.01 : false;
    if (turned) continue; // the box round a turned text is larger than the text
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects())
      if (r.width > 1 && r.height > 1) leaves.push([r, node.data.trim().slice(0, 40), parent]);
  }
  const scrolled = (e) => e.closest(".scroll, pre");
  leaves.sort((a, b) => a[0].top - b[0].top);
  for (let i = 0; i < leaves.length; i++)
    for (let j = i + 1; j < leaves.length && leaves[j][0].top < leaves[i][0].bottom; j++) {
      const [a, s, p] = leaves[i], [b, t, q] = leaves[j];
      if (scrolled(p) !== scrolled(q)) continue;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 0.35 * Math.min(a.height, b.height)) faults.push(`"${s}" lies on "${t}"`);
    }
  // Text stands out from its ground: 4.5 to 1, as the accessibility guidelines want it.
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const lum = (c) => { const [r, g, b] = c.map((v) => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
  const told = new Set();
  for (const [, text, parent] of leaves) {
    if (parent.closest("svg")) continue;
    const style = getComputedStyle(parent), ink = parse(style.color), paper = ground(parent);
    const [x, y] = [lum(ink.slice(0, 3)), lum(paper.slice(0, 3))];
    const ratio = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    const key = style.color + paper;
    if (ratio >= 4.5 || told.has(key)) continue;
    told.add(key);
    faults.push(`"${text}" has a contrast of ${ratio.toFixed(2)}`);
  }
  return faults;
})()
"""


def find() -> str | None:
    """The browser of this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> str | None:
    """Install Debian's chromium where that is possible; None when it is there afterwards, else the reason."""
    if find() is not None:
        return None
    if os.environ.get("GPUANON_NO_INSTALL"):
        return "no browser is installed, and GPUANON_NO_INSTALL is set"
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return "no browser is installed, and this user cannot install Debian's chromium"
    command = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        for tried in (["apt-get", "update"], command):
            done = subprocess.run(tried, env=environment, capture_output=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "no browser is installed, and installing Debian's chromium took too long"
    return None if find() is not None else f"Debian's chromium could not be installed (apt-get: {done.returncode})"


class Browser:
    """One headless browser with one page."""

    def __init__(self) -> None:
        self.home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self.send = os.pipe()
        self.receive, answer = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                 "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage",
                 f"--user-data-dir={self.home.name}", "about:blank"]  # fmt: skip
        # The pipe is file descriptors 3 and 4 of the browser.
        program = ["bash", "-c", f'exec 3<&{theirs} 4>&{answer}; exec "$0" "$@"', find() or "", *flags]
        self.process = subprocess.Popen(
            program, pass_fds=(theirs, answer), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs)
        os.close(answer)
        self.buffer, self.number, self.events = b"", 0, []
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        found = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.page(f"{domain}.enable")

    def call(self, method: str, session: str | None = None, **parameters: object) -> dict:
        """One command and its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]
            self.events.append(answer)

    def page(self, method: str, **parameters: object) -> dict:
        """One command to the page."""
        return self.call(method, self.session, **parameters)

    def _message(self, patience: float = 60.0) -> dict:
        end = time.monotonic() + patience
        while b"\0" not in self.buffer:
            if not select.select([self.receive], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            found = os.read(self.receive, 1 << 20)
            if not found:
                raise RuntimeError("the browser has ended")
            self.buffer += found
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def open(self, path: Path, width: int, scheme: str = "light", *, printed: bool = False) -> None:
        """Show a page of this machine at a width, in a colour scheme."""
        self.page(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        media = {
            "media": "print" if printed else "screen",
            "features": [{"name": "prefers-color-scheme", "value": scheme}],
        }
        self.page("Emulation.setEmulatedMedia", **media)
        self.events.clear()
        self.page("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message())

    def run(self, script: str) -> object:
        """The value of a script on the page."""
        found = self.page("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("text", "a script failed"))
        return found["result"].get("value")

    @property
    def complaints(self) -> list[str]:
        """What the browser has to say of the page: errors, warnings, requests."""
        self.run("0")
        found = []
        for event in self.events:
            if event.get("method") == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
            elif event.get("method") == "Runtime.exceptionThrown":
                found.append(event["params"]["exceptionDetails"].get("text", "an exception"))
            elif event.get("method") == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"):
                found.append(str(event["params"]["args"]))
        return found

    @property
    def faults(self) -> list[str]:
        """What is wrong with the page as it is shown: width, names, overlapping texts, contrast."""
        return self.run(_PAGE_FAULTS)

    def screenshot(self, path: Path, height: int | None = None) -> None:
        """The page, from its top to `height` or to its end."""
        size = self.page("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height or 16000), "scale": 1}
        found = self.page("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def pdf(self, path: Path) -> None:
        """The page as it is printed."""
        path.write_bytes(base64.b64decode(self.page("Page.printToPDF", printBackground=True)["data"]))

    def close(self) -> None:
        """End the browser."""
        try:
            self.call("Browser.close")
        except (RuntimeError, TimeoutError, OSError):
            self.process.kill()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.send)
        os.close(self.receive)
        self.home.cleanup()
