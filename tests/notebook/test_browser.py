"""In JupyterLab, in a browser: the quickstart's run with its live view, and what it leaves.

``AGENTLAB_SCREENSHOTS`` names a folder for pictures, to be looked at by a person.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

from tests.notebook.conftest import processes_of, until

sync_api = pytest.importorskip("playwright.sync_api")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = [
    "--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
QUICKSTART = Path(__file__).resolve().parents[2] / "notebooks" / "01_quickstart.ipynb"
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")


@pytest.fixture
def server(tmp_path):
    """JupyterLab on a free port, with settings and workspaces of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "AGENTLAB_DISPLAY": ""}
    env.pop("CI", None)
    for name in (
        "JUPYTERLAB_WORKSPACES_DIR",
        "JUPYTERLAB_SETTINGS_DIR",
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_RUNTIME_DIR",
        "IPYTHONDIR",
    ):
        env[name] = str(tmp_path / name.lower())
    root = tmp_path / "root"
    root.mkdir()
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        f"--ServerApp.root_dir={root}",
    ]
    command += ["--IdentityProvider.token=t", "--LabApp.expose_app_in_browser=True", "--LabApp.news_url="]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    url = f"http://127.0.0.1:{port}"

    def serves() -> bool:
        assert process.poll() is None, (tmp_path / "server.log").read_text()
        try:
            return bool(urllib.request.urlopen(f"{url}/api?token=t", timeout=2).status == 200)
        except OSError:
            return False

    try:
        until(serves, 60)
        yield url, root
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def live_notebook(path: Path) -> None:
    """The quickstart down to the run with two deaths, live, in a lab that can be looked at from here."""
    notebook = nbformat.read(QUICKSTART, as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    code = code[: next(i for i, source in enumerate(code) if "--crash" in source) + 1]
    code = [
        s.replace("%env AGENTLAB_DISPLAY=plain", "").replace("{home.name}/lab", "lab") for s in code if "tasks" not in s
    ]
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in [*code, "%agent log", "%agent locate"]]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


@pytest.mark.timeout(110)
def test_the_quickstart_in_jupyterlab(server):
    url, root = server
    live_notebook(root / "q.ipynb")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=OPTIONS)
        page = browser.new_page(viewport={"width": 1280, "height": 1700})
        page.set_default_timeout(40_000)
        page.goto(f"{url}/lab/workspaces/w/tree/q.ipynb?token=t&reset")
        # A run that is asked for before the session is there makes JupyterLab ask which kernel is meant.
        page.add_locator_handler(page.locator("dialog.jp-Dialog"), lambda dialog: page.keyboard.press("Enter"))
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        _until_it_answers(page)
        _command(page, "notebook:run-all-cells")

        page.get_by_text("Interrupt pauses at the next safe point").first.wait_for()
        time.sleep(1.0 if os.environ.get("AGENTLAB_SCREENSHOTS") else 0)
        _picture(page, "live")
        page.get_by_text("sales_report-2: timeline").wait_for()
        page.get_by_text("sales_report-2: ended").wait_for()
        text = page.locator(".jp-Notebook").inner_text()
        assert text.count("✓ completed") == 2
        assert "harness@tool_result" in text and "sandbox@step=4" in text
        assert "Error" not in text
        page.get_by_text("sales_report-2: timeline").click()
        page.locator("details", has_text="sales_report-2: timeline").locator("pre").wait_for()
        _picture(page, "done")
        _command(page, "apputils:change-theme", "{theme: 'JupyterLab Dark'}")
        time.sleep(0.5)
        _picture(page, "dark")
        page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
        browser.close()
    until(lambda: not processes_of(root), 15)


def _command(page, name: str, args: str = "{}") -> None:
    # Not awaited: the promise of a run ends with the last cell, or never when the request was lost.
    page.evaluate(f"() => {{ window.jupyterapp.commands.execute('{name}', {args}) }}")


def _until_it_answers(page) -> None:
    """Run the first cell until its output prompt has a number: what is sent before the kernel listens is lost."""
    for _ in range(10):
        _command(page, "notebook:run-cell")
        try:
            page.locator(".jp-InputPrompt").first.filter(has_text="1").wait_for(timeout=3000)
            return
        except sync_api.TimeoutError:
            continue
    raise AssertionError("the kernel does not answer")


def _picture(page, name: str) -> None:
    folder = os.environ.get("AGENTLAB_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"))
