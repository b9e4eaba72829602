"""Where the data sets are: beside the installed package, or in the checkout.

A plain ``pip install .`` puts ``datasets/*.csv`` into the wheel as ``agentlab/_datasets``; an editable
install has no such folder and reads the checkout's ``datasets/``.
"""

from __future__ import annotations

from pathlib import Path

from agentlab.errors import UnknownName


def _folders() -> list[Path]:
    """The folders that may hold data sets, the packaged one first."""
    package = Path(__file__).resolve().parents[1]
    folders = [package / "_datasets"]
    checkout = package.parent / "datasets"
    # In site-packages a folder ``datasets`` is another project's package; ours has the script that makes it.
    if (checkout / "make_sales.py").is_file():
        folders.append(checkout)
    return folders


def dataset_names() -> list[str]:
    """The file names of all data sets that can be found, sorted."""
    return sorted({path.name for folder in _folders() for path in folder.glob("*.csv")})


def dataset_path(name: str) -> Path:
    """The file of the data set with this name, e.g. ``sales_2023.csv``; read it, never write to it.

    Raises :class:`agentlab.errors.UnknownName` when there is none.
    """
    known = dataset_names()
    if name in known:  # also keeps ``../`` and absolute paths out
        for folder in _folders():
            if (folder / name).is_file():
                return folder / name
    raise UnknownName("dataset", name, known)
