"""Docstrings in the styles that people write."""

from __future__ import annotations

import pytest

from agentlab.docstrings import description, parameter_texts

GOOGLE = """Fetch rows.

    Use this for small tables: it reads
    everything.

    Args:
        table (str): The table: its full name.
        limit: How many rows
            at most.
        quiet:

    Returns:
        rows: not a parameter
    """
NUMPY = """Fetch rows.

    Use this for small tables: it reads
    everything.

    Parameters
    ----------
    table : str
        The table: its full name.
    limit : int, optional
        How many rows
        at most.
    quiet : bool

    Returns
    -------
    rows : list
        not a parameter
    """
SPHINX = """Fetch rows.

    Use this for small tables: it reads
    everything.

    :param str table: The table: its full name.
    :param limit: How many rows
        at most.
    :returns: rows
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX])
def test_styles(doc: str) -> None:
    assert description(doc) == "Fetch rows.\n\nUse this for small tables: it reads everything."
    assert parameter_texts(doc) == {"table": "The table: its full name.", "limit": "How many rows at most."}


def test_plain_and_none() -> None:
    assert description("Note: this is a sentence.\nSo is this.") == "Note: this is a sentence. So is this."
    assert (description(None), parameter_texts(None), parameter_texts("a: b")) == ("", {}, {})


def test_two_names_at_once() -> None:
    doc = "X.\n\nParameters\n----------\nleft, right : int\n    A side.\n*rest\n    More.\n"
    assert parameter_texts(doc) == {"left": "A side.", "right": "A side.", "rest": "More."}
