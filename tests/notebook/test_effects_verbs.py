"""%agent effects, settle and checkpoints over recorded labs."""

from __future__ import annotations

import pytest

from agentlab.errors import UserError
from agentlab.notebook import agent
from tests.session.museum import lab_of


@pytest.fixture
def in_museum(tmp_path):
    from agentlab.notebook.place import current

    agent(f"lab {lab_of(1, tmp_path)}")
    yield
    current().lab.close()


def test_effects_and_settle(in_museum):
    shown = agent("effects doubtful")
    (effect,) = shown.rows
    assert "1 effect, 1 in doubt" in shown.text() and f"%agent settle {effect.key} skip" in shown.text()
    assert "in_doubt" in shown.html() and "<style" not in shown.html()
    assert agent("effects ended --doubt").rows == ()
    said = agent(f"settle {effect.key} done --session doubtful")
    assert "settled" in said.text()
    assert agent("effects doubtful").rows[0].state == "done"
    with pytest.raises(UserError, match="effect in doubt"):
        agent(f"settle {effect.key} done --session doubtful")


def test_checkpoints(in_museum):
    agent("attach ended")
    table = agent("checkpoints")
    assert len(table.rows) >= 3 and "every 6 events" in table.text() and table.html()
    whole = agent(f"checkpoints {table.rows[-1].seq}")
    assert whole.picture["checkpoint_id"] == table.rows[-1].checkpoint_id and '"side_effects"' in whole.text()
    with pytest.raises(UserError, match="no checkpoint named 'nope'"):
        agent("checkpoints nope")


def test_wake_of_what_ended_or_waits_says_so(in_museum):
    with pytest.raises(UserError, match="has ended"):
        agent("wake ended")
    with pytest.raises(UserError, match="File it"):
        agent("wake waits")
