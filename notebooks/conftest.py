"""Notebook cells are tests that build on each other: they stay in order, whatever shuffles the other tests."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the cells behind all other tests, notebook by notebook, from the top: each notebook has one kernel."""
    cells = [item for item in items if hasattr(item, "cell_num")]
    others = [item for item in items if not hasattr(item, "cell_num")]
    items[:] = [*others, *sorted(cells, key=lambda cell: (str(cell.path), cell.cell_num))]
