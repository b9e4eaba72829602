"""A real JupyterLab and a real browser, for the tests that click. Pictures go to ``AGENTLAB_SCREENSHOTS``, if it is set."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import nbformat

from tests.notebook.conftest import until

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = [
    "--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
TIMEOUT_MS = 90_000
QUICKSTART = Path(__file__).resolve().parents[2] / "notebooks" / "01_quickstart.ipynb"
_OWN = (
    "JUPYTERLAB_WORKSPACES_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR",
)  # fmt: skip


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[tuple[str, Path]]:
    """JupyterLab on a port that it chooses, with settings and workspaces of its own: its address, and the folder it serves."""
    env = {**os.environ, "AGENTLAB_DISPLAY": "", **{name: str(folder / name.lower()) for name in _OWN}}
    env.pop("CI", None)
    root = folder / "root"
    root.mkdir()
    quiet = folder / "jupyterlab_settings_dir" / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0", f"--ServerApp.root_dir={root}",
        "--IdentityProvider.token=t", "--LabApp.expose_app_in_browser=True",
        "--JupyterNotebookApp.expose_app_in_browser=True", "--LabApp.news_url=",
    ]  # fmt: skip
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    runtime = folder / "jupyter_runtime_dir"

    def serves() -> str:
        """The address, once the server has written it down and answers there."""
        assert process.poll() is None, (folder / "server.log").read_text()
        try:
            port = json.loads((runtime / f"jpserver-{process.pid}.json").read_text())["port"]
            url = f"http://127.0.0.1:{port}"
            return url if urllib.request.urlopen(f"{url}/api?token=t", timeout=10).status == 200 else ""
        except (OSError, ValueError, HTTPException):  # not there yet, being written, not answering yet
            return ""

    try:
        yield until(serves, 120), root
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def write_notebook(path: Path, cells: list[str]) -> None:
    """A notebook of these code cells, not run."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = [nbformat.v4.new_code_cell(source.strip()) for source in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": kernel}), path)


READY = ":not(.al-cannot):not(.al-busy)"
"""A button of the panel that can act, as far as the panel knows: it may be behind the log."""
_READY = {False: "text=Python 3 (ipykernel) | Idle", True: ".jp-Notebook-ExecutionIndicator[data-status=idle]"}
"""What says that the kernel is connected and idle, in JupyterLab and in Notebook 7."""


class Page:
    """A notebook in a browser tab."""

    def __init__(
        self, browser: Any, url: str, name: str, *, workspace: str = "w", height: int = 1500, notebook_7: bool = False
    ) -> None:
        self.page = browser.new_page(viewport={"width": 1280, "height": height})
        self.page.set_default_timeout(TIMEOUT_MS)
        self.frames: list[int] = []
        """Sizes of what came from the server over websockets, in bytes."""
        self.page.on("websocket", lambda ws: ws.on("framereceived", lambda data: self.frames.append(len(data))))
        # A run that is asked for before the session is there makes JupyterLab ask which kernel is meant.
        self.page.add_locator_handler(
            self.page.locator("dialog.jp-Dialog"), lambda dialog: self.page.keyboard.press("Enter")
        )
        path = f"notebooks/{name}?token=t" if notebook_7 else f"lab/workspaces/{workspace}/tree/{name}?token=t&reset"
        self._ready = _READY[notebook_7]
        self.page.goto(f"{url}/{path}")
        self.await_kernel()

    def await_kernel(self) -> None:
        """Wait until the kernel is connected and idle."""
        self.page.locator(self._ready).first.wait_for(state="attached")

    def command(self, name: str, args: str = "{}") -> None:
        """Have JupyterLab do a command. Not awaited: a run's promise ends with the last cell, or never when it was lost."""
        self.page.evaluate(f"() => {{ window.jupyterapp.commands.execute('{name}', {args}) }}")

    def run_cell(self, number: int) -> None:
        """Run the cell of that number (from 0) with Shift+Enter; again if what was sent was lost."""
        cell = self.page.locator(".jp-Notebook .jp-CodeCell").nth(number)
        for _ in range(10):
            cell.locator(".cm-content").click()
            self.page.keyboard.press("Shift+Enter")
            try:
                cell.locator(".jp-InputPrompt").filter(has_text="[").filter(has_not_text="[ ]").wait_for(timeout=12_000)
                return
            except Exception as error:  # noqa: BLE001 - Playwright's own timeout: what is sent too early is lost
                if "Timeout" not in type(error).__name__:
                    raise
        raise AssertionError("the kernel does not answer")

    def cell_done(self, number: int) -> None:
        """Wait until that cell has a number: it has run."""
        import re

        prompt = self.page.locator(".jp-Notebook .jp-CodeCell").nth(number).locator(".jp-InputPrompt")
        prompt.filter(has_text=re.compile(r"\[\d+\]")).wait_for()

    def button(self, words: str) -> Any:
        """The panel's first button with these words in it that can act: to click it waits until it can."""
        return self.page.locator(f".al-panel button{READY}", has_text=words).first

    def seen(self, words: str) -> Callable[[], bool]:
        """From now on watch the page for these words, which may stand there for a moment only; whether they did."""
        self.page.evaluate(_WATCH, words)
        return lambda: bool(self.page.evaluate("() => window.seenWords"))

    def panel_text(self) -> str:
        """Everything that the panels show."""
        return "\n".join(self.page.locator(".al-panel").all_inner_texts())

    def status(self, word: str) -> None:
        """Wait until a panel's badge says ``word``."""
        self.page.locator(".al-badge", has_text=word).first.wait_for()

    def dark(self, on: bool = True) -> None:
        """Switch the theme."""
        theme = "Dark" if on else "Light"
        self.command("apputils:change-theme", f"{{theme: 'JupyterLab {theme}'}}")
        self.page.locator(f"body[data-jp-theme-light={'false' if on else 'true'}]").wait_for(state="attached")

    def contrasts(self) -> list[tuple[float, bool, str]]:
        """Every piece of text that the panel shows now: its contrast with what lies behind it (as WCAG computes it),
        whether it stands on a control that can not act, and the text."""
        found = self.page.evaluate(_CONTRASTS)
        return [(float(ratio), bool(off), str(text)) for ratio, off, text in found]

    def picture(self, name: str, panel_only: bool = False) -> None:
        """A picture, when somebody wants one."""
        folder = os.environ.get("AGENTLAB_SCREENSHOTS")
        if folder:
            time.sleep(0.6)  # a person sees the page at rest
            target = self.page.locator(".al-panel").first if panel_only else self.page
            target.screenshot(path=str(Path(folder) / f"{name}.png"))

    def shutdown(self) -> None:
        """End the kernels of this JupyterLab, and the tab."""
        self.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
        self.page.close()


_WATCH = """
words => {
  const holds = node => (node.textContent || '').includes(words);
  window.seenWords = holds(document.body);
  new MutationObserver(changes => changes.forEach(change => {
    if (holds(change.target) || [...change.addedNodes].some(holds)) window.seenWords = true;
  })).observe(document.body, {subtree: true, childList: true, characterData: true});
}
"""

_CONTRASTS = r"""
() => {
  const parse = (s) => { const n = (s.match(/[\d.]+/g) || []).map(Number);
    const k = s.startsWith('color(') ? 255 : 1; return [n[0]*k, n[1]*k, n[2]*k, n.length > 3 ? n[3] : 1]; };
  const over = (top, below) => [0, 1, 2].map(i => top[i]*top[3] + below[i]*(1 - top[3]));
  const light = (c) => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.03928 ? v/12.92 : ((v+0.055)/1.055)**2.4; });
    return 0.2126*r + 0.7152*g + 0.0722*b; };
  const behind = (e) => { const layers = []; for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) { layers.push(c); if (c[3] === 1) break; } }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]); };
  const walker = document.createTreeWalker(document.querySelector('.al-panel'), NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), e = walker.currentNode.parentElement;
    if (!text || e.closest('style,option') || !e.getClientRects().length || getComputedStyle(e).visibility === 'hidden') continue;
    let opacity = 1; for (let p = e; p; p = p.parentElement) opacity *= Number(getComputedStyle(p).opacity);
    const ground = behind(e), ink = parse(getComputedStyle(e).color); ink[3] *= opacity;
    const [a, b] = [light(over(ink, ground)), light(ground)].sort((x, y) => y - x);
    found.push([(a + 0.05)/(b + 0.05), !!e.closest('.al-cannot'), text.slice(0, 60)]);
  }
  for (const e of document.querySelectorAll('.al-panel input, .al-panel select')) {
    if (!e.getClientRects().length) continue;
    const ground = behind(e), ink = parse(getComputedStyle(e).color);
    const [a, b] = [light(over(ink, ground)), light(ground)].sort((x, y) => y - x);
    found.push([(a + 0.05)/(b + 0.05), false, 'field ' + (e.placeholder || e.value)]);
  }
  return found;
}
"""
