"""The plugin is found by every pytest of an environment: it must cost nothing there and change nothing."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

HEAVY = ("pandas", "duckdb", "pyarrow", "matplotlib", "IPython", "anthropic", "agentlab.lab", "agentlab.explorer")


def test_it_is_an_entry_point():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"agentlab": "agentlab.pytest_plugin"}
    found = [e.value for e in entry_points(group="pytest11") if e.name == "agentlab"]
    assert found == ["agentlab.pytest_plugin"]


def test_it_loads_no_library():
    code = f"import sys, agentlab.pytest_plugin; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_a_run_that_has_nothing_to_do_with_us_stays_as_it_is(tmp_path):
    (tmp_path / "test_theirs.py").write_text(
        "import sys\ndef test_theirs():\n    assert not any(m in sys.modules for m in " + repr(HEAVY) + ")\n"
    )
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
        "--rootdir",
        ".",
    ]
    done = subprocess.run([*argv, "test_theirs.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "warning" not in done.stdout
