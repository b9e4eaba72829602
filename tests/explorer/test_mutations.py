"""A suite that passes with a planted bug tests nothing: every bug of the list is noticed."""

from __future__ import annotations

import pytest

from agentlab.explorer import explore

from .mutations import MUTATIONS, noticed

EXPLORED = [m for m in MUTATIONS if m.judge == "explore"]
OTHERS = [m for m in MUTATIONS if m.judge != "explore"]


def test_the_list_is_long_enough():
    assert len(EXPLORED) >= 10 and len(OTHERS) >= 4


@pytest.mark.parametrize("task", sorted({m.task for m in EXPLORED}))
def test_without_a_planted_bug_nothing_is_noticed(task):
    report = explore(task, pairs=False)
    assert report.clean and report.complete


@pytest.mark.parametrize("mutation", EXPLORED, ids=lambda m: m.name)
def test_a_planted_bug_is_noticed(mutation, tmp_path):
    assert noticed(mutation, tmp_path)


@pytest.mark.parametrize("mutation", OTHERS, ids=lambda m: m.name)
def test_a_planted_bug_of_the_log_is_noticed_by_its_own_suite(mutation, tmp_path):
    assert noticed(mutation, tmp_path)
