"""The committed notebooks: run, outputs kept, nothing in them that changes or that belongs to a machine."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from agentlab.lab import Lab

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
UNCHECKED = {"nbval-skip", "nbval-ignore-output"}
CHANGES = re.compile(
    r"\bpid \d|\bsb-[0-9a-f]{8}|\b\d{4}-\d\d-\d\dT\d\d:|0x[0-9a-f]{8}|/tmp/|/home/|/root/|127\.0\.0\.1"
)


def complaints(notebook: Any) -> list[str]:
    """What is wrong with a notebook that is to be committed."""
    wrong = ["it has widget state"] if "widgets" in notebook.metadata else []
    showing = 0
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code" or UNCHECKED & set(cell.metadata.get("tags", ())):
            continue
        if cell.execution_count is None:
            wrong.append(f"cell {number} was not run")
        elif _must_show(cell.source) and not cell.outputs:
            wrong.append(f"cell {number} has lost its output")
        showing += bool(cell.outputs)
        wrong += [f"cell {number} failed" for output in cell.outputs if output.output_type == "error"]
        found = CHANGES.search(json.dumps(cell.outputs))
        wrong += [f"cell {number} shows {found[0]!r}, which changes"] if found else []
    return wrong if showing else [*wrong, "no cell shows anything: nothing would be compared"]


def _must_show(source: str) -> bool:
    """A cell that ends in a magic, a print or a bare name shows something."""
    last = source.strip().splitlines()[-1]
    return bool(source.startswith("%%agent") or re.match(r"%agent\b|print\(|[a-z_]+$", last))


def test_each_lesson_has_a_number_of_its_own():
    numbers = [path.name[:2] for path in NOTEBOOKS]
    assert numbers[0] == "01" and len(set(numbers)) == len(numbers) and all(n.isdigit() for n in numbers)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_was_run_and_keeps_its_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert complaints(notebook) == []
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run it from the top: python notebooks/execute.py"


def test_a_stripped_or_half_run_notebook_is_rejected():
    for change, said in (
        (lambda cell: cell.update(execution_count=None, outputs=[]), "was not run"),
        (lambda cell: cell.update(outputs=[]), "has lost its output"),
    ):
        notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                change(cell)
        assert said in " ".join(complaints(notebook))
        assert "nothing would be compared" in " ".join(complaints(notebook))


def kept(source: str) -> str:
    """A cell as people write it for their own work: the lab is a folder that stays."""
    return source.replace("{home.name}/lab", "lab")


ORDINARY = ("01", "07")
"""Lessons that are run twice each time; the others are in the nightly run."""


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=p.stem, marks=() if p.name[:2] in ORDINARY else pytest.mark.nightly) for p in NOTEBOOKS],
)
@pytest.mark.timeout(300)
def test_restart_and_run_all_twice_in_the_same_lab_folder(path, tmp_path):
    """The second time the first one's sessions are there. Nothing fails, and nothing of the first run is lost."""
    shutil.copytree(path.parent, tmp_path / "notebooks", ignore=shutil.ignore_patterns("lab", "__pycache__"))
    found: list[set[str]] = []
    for _ in range(2):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            cell.source = kept(cell.source)
        client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path / "notebooks")}})
        client.execute()  # a cell that fails raises
        with Lab(tmp_path / "notebooks" / "lab") as lab:
            found.append({session.id for session in lab.sessions()})
            assert "damaged" not in {status.status for status in lab.statuses()}
    assert found[0] <= found[1]
