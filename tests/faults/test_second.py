"""Two real harnesses awake on one session: the log says who may write, the outside's ledger that nothing happened twice."""

from __future__ import annotations

import pytest

from agentlab.explorer.outbox import FileOutbox
from agentlab.faults import parse_faults
from tests.explorer import tasks

PLACES = {
    "second:harness@effect_pending": "stops here; refused: effect_pending",
    "second:harness@effect.send": "stops here; refused: effect_completed, tool_result",
    "second:harness@model_request#2": "stops here; refused: tool_result, step_completed, step_started, model_request",
    "second:harness@wake": "has a living harness",
}
"""Where the second one wakes, and what the first, which goes on, is told: a late effect, append and charge are refused."""


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """All of them at once: most of their time is waiting."""
    from agentlab.lab import Lab

    folder = tmp_path_factory.mktemp("second")
    with Lab(folder / "lab") as lab:
        made = {}
        for number, words in enumerate(PLACES):
            box = folder / f"outbox-{number}.jsonl"
            session = lab.create(tasks.SMALL, params={"outbox": str(box)})
            session.start(arm=parse_faults(words, "f"))  # in force before it opens the session
            made[words] = session, box
        for session, _ in made.values():
            session.wait(240)
        yield made


@pytest.mark.parametrize("words", PLACES)
def test_the_older_one_goes_on_and_is_refused(sessions, words):
    session, box = sessions[words]
    assert session.status().status == "completed", session.locate()
    session.verify()
    events = session.events()
    woken = [event for event in events if event.type == "harness_woken"]
    assert len(woken) == (1 if words.endswith("@wake") else 2)  # the first had not opened it yet
    assert len({event.payload["process"]["pid"] for event in woken}) == len(woken), "each in a process of its own"
    assert {e.incarnation for e in events if e.seq > woken[-1].seq} == {woken[-1].incarnation}, (
        "nothing of the older one"
    )
    assert [e.payload["point"] for e in events if e.type == "fault_injected"] == [words]
    sent = [line for line in FileOutbox(box)._lines() if "message" in line]
    assert len(sent) == 1, "the message was delivered once"
    (output,) = (session.lab.path / "run").glob(f"*{session.id}*.log")
    said = output.read_text()
    assert PLACES[words] in said


def test_what_follows_strikes_the_one_that_works_on(ran):
    made = ran(["second:harness@tool_result,harness@model_response,second:harness@effect.reply"], task=tasks.SMALL).go()
    assert made.session.status().status == "completed" and len(made.struck()) == 3
    reasons = [event.payload["reason"] for event in made.kinds("harness_woken")]
    assert reasons == ["start", "takeover", "crash", "takeover"]
    assert made.delivered() == ["done"]
