"""Run the notebooks and keep their outputs: ``python notebooks/execute.py [NAME …]``.

What is committed is what came out: the scripted model, no clocks, no random ids. Cell timings and widget state are
not kept, so that running twice gives the same file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
CELL_TIMEOUT_S = 120
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def execute(path: Path) -> Any:
    """The notebook at ``path``, run from a fresh kernel in its own folder, as it is to be saved.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["kernelspec"] = KERNEL
    client = NotebookClient(
        notebook, timeout=CELL_TIMEOUT_S, record_timing=False, resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main(names: list[str]) -> int:
    """Run and save the named notebooks, or all of them."""
    for path in [HERE / name for name in names] or sorted(HERE.glob("*.ipynb")):
        print(f"{path.name} …", flush=True)
        nbformat.write(execute(path), path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
