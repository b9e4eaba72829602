"""Completion of %agent lines, as a list and as the shell uses it."""

from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter

import agentlab as al
from agentlab.notebook.completion import complete


def rest(view):
    return al.say("done")


@pytest.fixture
def mine():
    return {
        "resting": rest,
        "my_task": al.Task(name="mine", goal="g", model=rest),
        "_7": al.Task(name="hidden", goal="g", model=rest),
    }


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("%agent ", {"run", "step", "wake", "log"}),
        ("%agent st", {"step", "start", "status"}),
        ("%%agent r", {"run", "reply"}),
        ("%agent run ", {"sales_report", "sea_table", "my_task", "mine"}),
        ("%agent run sales_report --cr", {"--crash"}),
        ("%agent run --crash harness@tool_result m", {"mine", "my_task"}),
        ("%agent run sales_report --crash harness@tool_re", {"harness@tool_result", "harness@tool_requested"}),
        ("%agent run sales_report --crash=sandbox@st", {"--crash=sandbox@step="}),
        ("%agent run sales_report --policy mile", {"milestones"}),
        ("%agent run sales_report --scheme ", {"hybrid", "events", "snapshot"}),
        ("%agent kill ", {"harness", "sandbox"}),
        ("%agent help ki", {"kill"}),
        ("%agent run sales_report --param ", {"receiver_url="}),
        ("%agent step --task sales_report --param=rec", {"--param=receiver_url="}),
        ("%agent run --model ", {"resting", "claude-", "anthropic:", "scripted:"}),
        ("%agent wake --model rest", {"resting"}),
    ],
)
def test_lists(mine, line, some):
    assert some <= set(complete(line, mine))


def test_lists_nothing_that_does_not_fit(mine):
    assert complete("%agent run sales_report --cr", mine) == ["--crash"]
    assert complete("%agent nonsense ", mine) == []
    assert "hidden" not in complete("%agent run ", mine)
    assert complete("%agent run --seed ", mine) == []


def test_session_ids(mine, here):
    here.lab.create(mine["my_task"], session_id="one")
    here.lab.create(mine["my_task"], session_id="two")
    assert complete("%agent status ", mine) == ["one", "two"]
    assert complete("%agent log t", mine) == ["two"]
    assert complete("%agent kill harness o", mine) == ["one"]
    assert complete("%agent run x --model recorded:t", mine) == ["recorded:two"]


def test_event_numbers(mine, here):
    """Those of the session that the line names, else of the one in hand, in their order."""
    session = here.take(here.lab.create(mine["my_task"], session_id="one"))
    other = here.lab.create(mine["my_task"], session_id="two")
    for number in range(11):
        session.checkpoint(f"c{number}")
    assert complete("%agent log --from ", mine) == [str(n) for n in range(1, 13)]
    assert complete("%agent log --from 1", mine) == ["1", "10", "11", "12"]
    assert complete("%agent log two --to ", mine) == [str(n) for n in range(1, other.state.seq + 1)]
    assert complete("%agent at ", mine) == complete("%agent fork --at ", mine) == complete("%agent log --to ", mine)


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("%agent sta", "%agent status"),
        ("%%agent ru", "%%agent run"),
        ("%agent run sales_re", "%agent run sales_report"),
        ("%agent run sales_report --cra", "%agent run sales_report --crash"),
        ("%agent run x --crash harness@tool_resu", "%agent run x --crash harness@tool_result"),
        ("%agent run x --crash harness@sandbox.exe", "%agent run x --crash harness@sandbox.execute"),
        ("%agent run x --policy=mile", "%agent run x --policy=milestones"),
        ("agent wak", "agent wake"),
    ],
)
def test_in_the_shell_as_kernels_ask_it(shell, line, whole):
    with provisionalcompleter():
        found = list(shell.ip.Completer.completions(line, len(line)))
    assert whole in {line[: one.start] + one.text + line[one.end :] for one in found}


@pytest.mark.parametrize(
    "line",
    [
        "%agent ",
        "%agent r",
        "%agent run ",
        "%agent log --",
        "%agent run sales_report --po",
        "%agent run sales_report --crash harness@",
        "%%agent run sales_report --crash harness@e",
        "found = %agent run s",
        "%agent run sales_report --limit to",
        "%agent budget ext",
    ],
)
def test_the_shell_offers_words_of_the_line_and_nothing_of_python(shell, line):
    with provisionalcompleter():
        found = list(shell.ip.Completer.completions(line, len(line)))
    whole = {line[: one.start] + one.text + line[one.end :] for one in found}
    mine = line[line.index("%") :]
    stem = line[: len(line) - len(line.split(" ")[-1])]
    assert found and whole == {stem + word for word in complete(mine, shell.ip.user_ns)}


def test_outside_of_the_line_and_in_braces_python_completes(shell):
    shell.ip.user_ns["receiver_here"] = 1
    for line in ("receiver_h", "%agent run sales_report --param receiver_url={receiver_h", "x = receiver_h"):
        with provisionalcompleter():
            assert any("receiver_here" in one.text for one in shell.ip.Completer.completions(line, len(line))), line


def test_checkpoints_sessions_to_compare_and_dimensions(mine, here):
    session = here.take(here.lab.create(mine["my_task"], session_id="one"))
    session.checkpoint("kept")
    session.start()
    session.wait(120)
    numbers = {str(c.seq) for c in session.checkpoints()}
    assert numbers and set(complete("%agent restore ", mine)) == {"newest", "kept", *numbers}
    assert complete("%agent diff o", mine) == complete("%agent diff one o", mine) == ["one"]
    assert complete("%agent budget extend tok", mine) == ["tokens="]
    assert {"max_turns=", "cost="} <= set(complete("%agent run mine --limit ", mine))


def test_installing_twice_and_removing(shell):
    from agentlab.notebook import completion

    before = list(shell.ip.Completer.custom_matchers)
    completion.install(shell.ip)
    assert shell.ip.Completer.custom_matchers == before
    completion.remove(shell.ip)
    with provisionalcompleter():
        assert not [one for one in shell.ip.Completer.completions("%agent wak", 10) if one.text == "wake"]
    completion.install(shell.ip)
