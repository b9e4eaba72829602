"""Make the recordings of the lesson with Claude: ``python notebooks/recordings/record.py``.

The notebook's own cells are run as if there were a key, against the local server that speaks the Messages API with a
scripted policy behind it; what the sessions were answered becomes the files beside this one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

import agentlab as al
from agentlab.models.scripted import ScriptedModel
from agentlab.models.view import View
from agentlab.testing.messages_server import LOCAL_KEY, MessagesServer

HERE = Path(__file__).resolve().parent
NOTEBOOK = HERE.parent / "08_with_claude.ipynb"
EXPORT = """
for name, run in {"orders": first, "orders-killed": second}.items():
    run.session.export_recording(f"recordings/{name}.jsonl")
"""


def policy(view: View) -> Any:
    """Answers like a careful analyst: looks, counts, writes it down, and says what it found."""
    step = view.status.get("step")
    if step == "look":
        return [al.say("First I look at what the file holds."), al.call("head", path="orders.csv", lines=3)]
    if step == "count":
        return [al.say("The amounts are in the third column."), al.call("total_by", path="orders.csv", column="city")]
    if step == "write":
        totals = view.last.result if view.last is not None else ""
        return [al.say("I write the totals down."), al.call("write_report", text=f"Totals by city: {totals}")]
    return al.say("Lisbon has the largest total. The totals by city are in report.txt.")


def main() -> int:
    """Run the notebook against the server and keep the answers."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if "recorded-until-here" in cell.metadata.get("tags", ()):
            break
    notebook.cells = [*cells, nbformat.v4.new_code_cell(EXPORT)]
    with MessagesServer(ScriptedModel(policy)) as server:
        os.environ.update(ANTHROPIC_API_KEY=LOCAL_KEY, ANTHROPIC_BASE_URL=server.url)
        NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
        print(f"{len(server.requests)} questions were answered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
