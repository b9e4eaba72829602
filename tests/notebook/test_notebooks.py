"""The committed notebooks: run, outputs kept, nothing in them that changes or that belongs to a machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_lesson_is_run_twice_in_the_same_lab_folder(path, request):
    """Once cell by cell against its outputs, and once more as a whole in a fresh kernel: both are collected."""
    conftest = request.config.pluginmanager.get_plugin(str(NOTEBOOKS[0].parent / "conftest.py"))
    if conftest is None:
        pytest.skip("notebooks/ is not part of this test run")
    (again,) = conftest.pytest_collect_file(path, request.session).collect()
    labs = [cell.source for cell in nbformat.read(path, as_version=4).cells if conftest.PASSING_LAB in cell.source]
    assert again.cell_num > 1000 and labs, "a lesson names its lab so that a test can keep it"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_asks_a_question_shows_a_picture_and_leaves_something_to_try(path):
    cells = nbformat.read(path, as_version=4).cells
    assert cells[0].source.startswith("# ") and "**The question:**" in cells[0].source
    shown = [data for cell in cells for output in cell.get("outputs", ()) for data in output.get("data", ())]
    assert "image/png" in shown
    tries = cells[-1].source if "## Try it" in cells[-1].source else cells[-2].source
    assert len(re.findall(r"^\d\. ", tries.partition("## Try it")[2], re.MULTILINE)) >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_readme_lists_the_lesson(path):
    assert f"](notebooks/{path.name})" in (NOTEBOOKS[0].parents[1] / "README.md").read_text()
