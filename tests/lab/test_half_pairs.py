"""Half a surrogate pair in a text (``"\\ud800"``): kept as it is and shown as an escape, or refused where it came in.

Nothing that a person writes, and nothing that a tool gives, may end in a bare UnicodeEncodeError.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import agentlab as al
from agentlab.effects.receiver import Ledger
from agentlab.errors import BadDefinition, BadLab, UserError
from agentlab.explorer.schedule import Violation, keep, read_schedule
from agentlab.lab import Lab
from agentlab.lab.lines import event_line
from agentlab.notebook import place
from agentlab.notebook.parsing import dispatch

HALF = "half\ud800pair"
ESCAPED = "half\\ud800pair"


@al.tool(effect="pure")
def measure(text: str) -> int:
    """How long a text is."""
    return len(text)


def policy(view):
    return al.say("done")


def task(**fields):
    return al.Task(**{"name": "half", "goal": "Measure.", "tools": [measure], "model": policy, **fields})


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(place, "_current", place.Place())
    monkeypatch.setenv("AGENTLAB_DISPLAY", "plain")
    return Lab("lab")


@pytest.mark.parametrize(
    "fields",
    [
        {"goal": HALF},
        {"system": HALF},
        {"user_input": HALF},
        {"constraints": [HALF]},
        {"params": {HALF: {"deep": [HALF]}}},
        {"steps": [al.step("measure", HALF, tool="measure", parameters={"text": HALF}, expected=HALF)]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_task_keeps_it_as_it_is(lab, fields):
    session = lab.create(task(**fields))
    name, value = next(iter(fields.items()))
    assert getattr(session.definition, name) == (tuple(value) if name == "constraints" else value) or name == "steps"
    assert session.verify().seq == 1
    for shown in (
        dispatch("log", None, {}),
        dispatch("at 1", None, {}),
        dispatch("context", None, {}),
        session.context(),
    ):
        assert json.dumps([repr(shown), shown._repr_html_()], ensure_ascii=False).encode()
    assert lab.sql("SELECT payload FROM events").payload.str.contains("ud800").all()
    assert [event_line(event).encode() for event in session.replay()]


@pytest.mark.parametrize(
    "files",
    [{"a.txt": f"one\n{HALF}"}, {HALF: b"1"}, {"a.txt": HALF}, [Path(HALF)], {"a.txt": "nul\0"}, [Path("nul\0")]],
)
def test_a_file_that_there_can_not_be_is_refused(lab, files):
    with pytest.raises(BadDefinition, match="task 'half'") as refused:
        lab.create(task(files=files))
    assert "no file can have" in str(refused.value) or "no UTF-8" in str(refused.value)
    assert not lab.store.sessions()


@pytest.mark.parametrize("name", [HALF, "nul\0"])
def test_a_path_that_can_be_none_is_refused(lab, name):
    session = lab.create(task())
    with pytest.raises(BadLab, match="can not be a lab"):
        Lab(name)
    with pytest.raises(BadDefinition, match="recording"):
        lab.create(task(), model=f"recorded:{name}.jsonl")
    with pytest.raises(BadDefinition, match="no schedules can be kept"):
        al.explore(task(), pairs=False, keep=name)
    with pytest.raises(UserError, match="no file can have that name"):
        session.export(f"{name}.jsonl")


def test_a_sweep_gives_the_function_what_it_was_given_and_its_frame_an_escape(lab):
    def fn(text, fail):  # travels to the worker by value
        if fail:
            raise ValueError(text)
        return {text: text, "code": ord(text[4])}

    with ThreadPoolExecutor(1) as executor:
        grid = [{"text": HALF, "fail": fail} for fail in (False, True)]
        frame = al.sweep(grid, fn, lab=lab, executor=executor, progress=False).frame
    assert frame.code[0] == 0xD800
    assert list(frame.text) == [ESCAPED] * 2 and frame[ESCAPED][0] == ESCAPED
    assert list(frame.ok) == [True, False] and frame.error[1] == f"ValueError: {ESCAPED}"
    assert frame.condition[0] == f"text={ESCAPED}, fail=False"


def test_what_others_send_and_what_is_kept_is_escaped(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    record, _ = ledger.execute("key", {"text": HALF})
    ledger.close()
    assert json.loads((tmp_path / "ledger.jsonl").read_text("utf-8"))["body"] == record["body"] == {"text": HALF}
    kept = keep(Violation("effects", HALF, (), "half"), tmp_path, 1)
    assert json.loads(kept.read_text("utf-8"))["message"] == HALF and read_schedule(kept) == ("half", ())
