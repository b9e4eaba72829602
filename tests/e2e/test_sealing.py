"""The end of a session, sealed by its harness: also by the next one, when the first is killed in the middle of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import tasks


@pytest.mark.parametrize("crash", [(), ("harness@segment.link",), ("harness@segment.clean",)], ids=str)
def test_an_ended_session_is_sealed(lab, crash):
    session = lab.run(tasks.task("measure"), crash=crash)
    assert session.status().status == "completed"
    said = lab.supervisor.wait_exit(session.id, 120)
    assert said is not None and said.done == "ended"
    assert [Path(path).parent.name for path, _ in session.log.commit_files()] == ["segments"]
    assert not session.log.loose()
    starts = lab.supervisor.status()[session.id]["starts"]
    assert starts == 1 + len(crash), "killed in the sealing, and followed by a harness that finished it"
    session.verify()
    assert session.result["outcome"] == "completed"
    assert lab.sql("SELECT count(*) AS n FROM events").n[0] == len(session.events())
    assert [event.type for event in session.events()][-1] == "session_ended"


def test_a_paused_session_is_not_sealed(lab):
    session = lab.create(tasks.task("measure"))
    session.step()
    assert session.status().status == "paused"
    assert all(Path(path).parent.name == "commits" for path, _ in session.log.commit_files())
