"""Importing the package is free of charge: a kernel may do it at start-up, a harness does it in every recovery."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import agentlab

HEAVY = ("pyarrow", "pandas", "duckdb", "IPython", "anthropic", "cloudpickle", "matplotlib", "ipywidgets", "numpy")
WATCHED = """
import json, sys
touched = []
def hook(event, arguments):
    if event in ("os.mkdir", "os.rename", "os.remove", "os.link", "subprocess.Popen", "socket.connect", "os.fork"):
        touched.append([event, repr(arguments)])
    elif event == "open" and not isinstance(arguments[0], int):
        path, flags = str(arguments[0]), arguments[2] or 0
        if flags & 3 or not path.endswith((".py", ".pyc", ".so", ".pth")):
            touched.append([event, path])
sys.dont_write_bytecode = True
before = set(sys.modules)
sys.addaudithook(hook)
import agentlab
found = list(touched)
print(json.dumps([sorted(set(sys.modules) - before), found]))
"""


def python(code: str, folder: Path) -> str:
    env = {**os.environ, "HOME": str(folder), "AGENTLAB_STATE_DIR": str(folder / "state")}
    root = str(Path(agentlab.__file__).parent.parent)
    env["PYTHONPATH"] = root
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=folder, env=env, timeout=240
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def test_it_prints_nothing_touches_no_file_and_loads_no_library(tmp_path: Path) -> None:
    loaded, touched = json.loads(python(WATCHED, tmp_path))
    assert touched == []
    assert list(tmp_path.iterdir()) == []
    assert not {name.partition(".")[0] for name in loaded} & set(HEAVY)
    assert {name for name in loaded if name.startswith("agentlab")} <= {"agentlab", "agentlab.version"}


def test_writing_tools_loads_no_library_either(tmp_path: Path) -> None:
    code = (
        "import sys, agentlab as al\n"
        "@al.tool(effect='pure')\ndef work(n: int) -> int:\n    return n\n"
        "task = al.register_task(al.Task('t', 'Do it.', tools=[work], steps=[al.step('a')], limits=al.Limits()))\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    assert python(code, tmp_path) == "[]\n"
    assert list(tmp_path.iterdir()) == []


def test_every_public_name_is_there(tmp_path: Path) -> None:
    assert python("import agentlab\nfor name in agentlab.__all__: getattr(agentlab, name)", tmp_path) == ""
    assert dir(agentlab) == sorted(agentlab.__all__)
