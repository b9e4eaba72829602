"""The corpus: balanced, seeded, not separable by a threshold, and well told apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agentlab.guard import Action, Finding, findings
from agentlab.guard.__main__ import table
from agentlab.guard.case import score
from agentlab.guard.corpus import PAIRS, corpus
from agentlab.guard.existing import EXISTING
from agentlab.guard.heldout import heldout
from agentlab.guard.unseen import unseen


def test_as_many_stuck_as_sound_and_the_same_for_the_same_seed() -> None:
    cases = corpus()
    assert len(cases) >= 200
    assert sum(c.stop for c in cases) * 2 == len(cases)
    assert cases == corpus() and cases != corpus(seed=1)
    assert {c.kind for c in cases} == {kind for pair in PAIRS for kind in pair}


@pytest.mark.parametrize("threshold", range(2, 15))
def test_no_threshold_on_equal_calls_separates_the_corpus(threshold: int) -> None:
    def equal_in_a_row(actions: Sequence[Action]) -> list[Finding]:
        run, found = 1, []
        for a, b in zip(actions, actions[1:], strict=False):
            run = run + 1 if (a.tool, a.input) == (b.tool, b.input) else 1
            if run == threshold:
                found.append(Finding("row", "stop", (b.seq,), ""))
        return found

    result = score(equal_in_a_row, corpus())
    assert result.precision < 0.9 or result.recall < 0.6


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_guard_tells_the_corpus_apart(seed: int) -> None:
    for nudges in (False, True):
        result = score(findings, corpus(seed), nudges=nudges)
        assert result.precision > 0.98 and result.recall > 0.98, result


def test_no_restated_detector_does() -> None:
    for name, detector in EXISTING.items():
        result = score(detector, corpus())
        assert result.precision < 0.98 or result.recall < 0.98, name


def test_held_out_kinds_are_reported(record_property: Callable[[str, object], None]) -> None:
    for name, cases in (("held-out", heldout()), ("unseen", unseen())):
        result = score(findings, cases)
        record_property(name, result._asdict())
        # What is told apart here may fall short; a sound run halted would be a fault.
        assert result.precision > 0.98, result.false_alarms


def test_the_table_names_every_detector_and_kind() -> None:
    text = table("corpus", corpus(variations=1))
    for name in ("agentlab", *EXISTING, *(kind for pair in PAIRS for kind in pair)):
        assert name in text
