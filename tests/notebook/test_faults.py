"""``%agent inject`` and ``%agent faults``: armed and struck, seen from a cell."""

from __future__ import annotations

from agentlab.notebook.completion import complete
from tests.notebook.test_lines import TINY


def test_faults_are_armed_while_it_rests_and_seen_when_they_have_struck(shell):
    shell.run(TINY)
    shell.run("%agent step --task adding")
    armed = shell.run("%agent inject tool(add):exception harness@session_ended --seed 7")
    assert [row.state for row in armed.rows] == ["armed", "armed"] and armed.rows[0].seed == 7
    assert "2 armed, 0 struck" in armed.text() and "tool(add):exception" in armed.html()
    assert shell.run("%agent wake").status.status == "completed"
    struck = shell.run("%agent faults")
    assert "0 armed, 2 struck" in struck.text() and "tool_error" in struck.text()
    assert "has ended" in shell.complaint("%agent inject model:529")


def test_a_run_takes_faults_in_the_same_words(shell):
    shell.run(TINY)
    made = shell.run("%agent run adding --fault tool(add):lost_reply --crash harness@model_response#2 --seed 3")
    assert made.status.status == "completed"
    assert sorted(row.words for row in made.session.faults()) == ["harness@model_response#2", "tool(add):lost_reply"]


def test_what_can_go_wrong_is_listed_and_completed(shell):
    kinds = shell.run("%agent faults --kinds")
    assert "model:429" in kinds.text() and "retry_storm" in kinds.text() and "second:harness@POINT" in kinds.html()
    assert "model:529" in complete("%agent run x --fault model:5", {})
    assert "disk:full@event.append" in complete("%agent run x --fault disk:full@", {})
    assert "harness@tool_result" in complete("%agent inject harness@tool_r", {})
    assert "did you mean model" in shell.complaint("%agent run sales_report --fault modle:529")
