"""Clicks while cells run, message by message, on every ipykernel that is installed beside this one.

``AGENTLAB_KERNELS`` is a folder with one subfolder per release of ipykernel, made with
``pip install --target <folder>/<release> ipykernel==<release>``. The newest is always tested: it is the one installed
here. What holds everywhere: a click acts at once when no cell runs. What a kernel does while a cell runs differs, and
is written down here.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import time
from pathlib import Path

import pytest

from agentlab.lab import Lab
from tests.kernels import start_kernel
from tests.notebook.conftest import kinds, processes_of, until

HERE = importlib.metadata.version("ipykernel")
OLDER = ("6.31", "7.3")
BEGIN = '''
%load_ext agentlab
import time, asyncio
import agentlab as al

@al.tool(effect="pure")
def nap(n: int) -> str:
    """Sleep a little."""
    time.sleep(0.15)
    return f"nap {n}"

def napping(view):  # it goes on for longer than any test takes
    return al.call("nap", n=len(view.calls("nap")))

naps = al.Task(name="naps", goal="Sleep.", tools=[nap], model=napping, limits={"max_turns": 100_000}, durability="process")
session = al.Lab("lab").create(naps, session_id="naps-1")
panel = al.panel(session)
_ = panel.open()
column = panel.columns[0]
widgets = {name: control.button for name, control in column.controls.items()} | column.tabs
print("widgets", {name: widget.comm.comm_id for name, widget in widgets.items()})
'''


AWAITING = """
asyncio.get_running_loop().call_later(0.1, print, 'begun')
try:
    print('rests:', (await session.wait(SECONDS)).status)
except TimeoutError:
    print('rests: nothing yet')
"""


def installed(release: str) -> Path | None:
    """Where that release of ipykernel lies; None when it is not there."""
    folder = os.environ.get("AGENTLAB_KERNELS", "")
    site = Path(folder, release).absolute()
    return site if folder and site.is_dir() else None


class Clicking:
    """A kernel that is spoken to by messages: run cells, press buttons as a frontend does."""

    def __init__(self, cwd: Path, site: Path | None) -> None:
        env = {**os.environ, "AGENTLAB_DISPLAY": "live"}
        if site is not None:
            env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), env.get("PYTHONPATH", "")]))
        self.manager, self.client = start_kernel(cwd=str(cwd), env=env)

    def send(self, code: str) -> str:
        return str(self.client.execute(code))

    def begin(self, code: str) -> str:
        """Send a cell that prints something once it runs, or awaits, and wait until it has."""
        message_id = self.send(code)
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["msg_type"] == "stream" and message["parent_header"].get("msg_id") == message_id:
                return message_id

    def done(self, message_id: str, timeout: float = 150.0) -> tuple[str, str]:
        """Await a cell: its status and its text."""
        text, deadline = "", time.monotonic() + timeout
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") != message_id:
                continue
            content = message["content"]
            text += str(content.get("text", "")) + str(content.get("evalue", ""))
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                while (reply := self.client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != message_id:
                    pass
                return str(reply["content"]["status"]), text
        raise TimeoutError(f"the cell is not done within {timeout} s")

    def run(self, code: str) -> str:
        status, text = self.done(self.send(code))
        assert status == "ok", text
        return text

    def click(self, comm_id: str, subshell: str = "") -> None:
        """What a frontend sends when a button is pressed, over a subshell or not."""
        self._tell(comm_id, {"method": "custom", "content": {"event": "click"}}, subshell)

    def turn(self, comm_id: str, on: bool, subshell: str = "") -> None:
        """What a frontend sends when a toggle button is pressed."""
        self._tell(comm_id, {"method": "update", "state": {"value": on}, "buffer_paths": []}, subshell)

    def _tell(self, comm_id: str, data: dict, subshell: str) -> None:
        message = self.client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        if subshell:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def control(self, kind: str, **content: str) -> dict:
        """Ask something over the control channel: the answer."""
        message = self.client.session.msg(kind, content)
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=120)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return reply["content"]

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def widgets_of(kernel: Clicking) -> dict[str, str]:
    """Open the panel: the ids under which its buttons and tabs are spoken to."""
    found: dict[str, str] = json.loads(kernel.run(BEGIN).partition("widgets ")[2].replace("'", '"'))
    return found


@pytest.fixture(params=[HERE, *OLDER])
def kernel(request, tmp_path):
    site = None
    if request.param != HERE:
        site = installed(request.param)
        if site is None:
            pytest.skip(
                f"ipykernel {request.param} is not installed beside {HERE}: pip install --target KERNELS/{request.param}"
                f" 'ipykernel=={request.param}.*' and set AGENTLAB_KERNELS=KERNELS"
            )
    kernel = Clicking(tmp_path, site)
    try:
        version = kernel.run("import ipykernel; print(ipykernel.__version__)").strip()
        assert site is None or version.startswith(f"{request.param}."), f"{site} gave a kernel of ipykernel {version}"
        kernel.release = tuple(map(int, version.split(".")[:2]))
        yield kernel
    finally:
        kernel.close()
    until(lambda: not processes_of(tmp_path))


def test_clicks_idle_blocking_and_awaiting(kernel, tmp_path):
    buttons = widgets_of(kernel)
    session = Lab(tmp_path / "lab").session("naps-1")
    count = lambda kind: kinds(session).count(kind)  # noqa: E731

    # idle: a click acts, on every kernel
    kernel.click(buttons["run"])
    until(lambda: count("tool_result") >= 1)

    # blocking: the cell has the main thread; the click comes when it is done, and the run is not disturbed
    cell = kernel.begin("print('begun')\ntime.sleep(1.0)\nprint('slept')")
    kernel.click(buttons["pause"])
    status, text = kernel.done(cell)
    assert status == "ok" and "slept" in text
    until(lambda: count("pause_requested") == 1)
    until(lambda: session.status().status == "paused")

    # idle again: the next command is done alone
    before = count("resume_requested")
    until(lambda: "can not" not in kernel.run("print(panel.columns[0].controls['step'].button.tooltip)"))
    kernel.click(buttons["step"])
    until(lambda: count("resume_requested") == before + 1)
    until(lambda: "did " in kernel.run("print(panel.columns[0].said.box.value)"))

    # awaiting: widgets live from 7.4 on; before that the click comes afterwards
    until(lambda: "can not" not in kernel.run("print(panel.columns[0].controls['run'].button.tooltip)"))
    kernel.click(buttons["run"])
    until(lambda: "woken" in kernel.run("print(panel.columns[0].said.box.value)"))
    until(lambda: "can not" not in kernel.run("print(panel.columns[0].controls['pause'].button.tooltip)"))
    live = kernel.release >= (7, 4)
    cell = kernel.begin(AWAITING.replace("SECONDS", "120" if live else "4"))
    kernel.click(buttons["pause"])
    status, text = kernel.done(cell)
    assert status == "ok", text
    if live:
        assert "rests: paused" in text and count("pause_requested") == 2
    else:
        assert "rests: nothing yet" in text
        until(lambda: count("pause_requested") >= 2)


def test_no_click_is_lost(kernel, tmp_path):
    """Neither in the moment in which a cell begins, nor on a widget that was last used over a subshell that the frontend
    has deleted since."""
    widgets = widgets_of(kernel)
    kernel.run("pressed = []\nwidgets['wake'].on_click(lambda _: pressed.append(1))")
    for number in range(24):
        cell = kernel.send(f"begun = {number}\nawait asyncio.sleep(0.02)")
        if number % 3:
            time.sleep(0.002 * (number % 3))
        kernel.click(widgets["wake"])
        assert kernel.done(cell)[0] == "ok"
    until(lambda: "24 presses" in kernel.run("print(len(pressed), 'presses')"))
    assert "run it" in kernel.run("print(column.said.box.value)")  # each was answered: it has not begun

    if kernel.release < (7, 0):
        return  # it has no subshells
    shown = "print('shown' if column.sections['log'].layout.display == '' else 'hidden')"
    assert "hidden" in kernel.run(shown)
    subshell = kernel.control("create_subshell_request")["subshell_id"]
    kernel.turn(widgets["log"], True, subshell)
    kernel.click(widgets["wake"], subshell)
    kernel.click(widgets["checkpoint"], subshell)
    until(lambda: "shown" in kernel.run(shown) and "25" in kernel.run("print(len(pressed))"))
    session = Lab(tmp_path / "lab").session("naps-1")
    until(lambda: kinds(session).count("checkpoint_requested") == 1)
    beats = int(kernel.run("print(panel.pulse.beats)"))
    until(lambda: int(kernel.run("print(panel.pulse.beats)")) > beats + 1)
    assert kernel.control("delete_subshell_request", subshell_id=subshell)["status"] == "ok"
    kernel.turn(widgets["log"], False)
    kernel.click(widgets["wake"])
    kernel.click(widgets["checkpoint"])
    until(lambda: "hidden" in kernel.run(shown))
    until(lambda: "26" in kernel.run("print(len(pressed))"))
    until(lambda: kinds(session).count("checkpoint_requested") == 2)


def test_an_awaiting_cell_is_interrupted(kernel, tmp_path):
    kernel.run(BEGIN)
    session = Lab(tmp_path / "lab").session("naps-1")
    kernel.run("session.start()")
    until(lambda: kinds(session).count("tool_result") >= 1)
    # What the loop prints comes while the cell awaits: from then on it is the awaiting that is interrupted.
    cell = kernel.begin(AWAITING.replace("SECONDS", ""))
    kernel.manager.interrupt_kernel()
    status, _ = kernel.done(cell)
    assert status == "error"
    until(lambda: session.status().status == "paused")
    assert kinds(session).count("harness_woken") == 1
