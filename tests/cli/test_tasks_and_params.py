"""Tasks and parameters as a command line gives them: the same words mean the same in every verb, and in a cell."""

from __future__ import annotations

import importlib
import sys

import pytest

from agentlab.cli import main
from agentlab.errors import BadDefinition, UnknownName
from agentlab.lab import Lab
from agentlab.notebook.place import task_named

MODULE = '''
import agentlab as al


@al.tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b * al.task_params().get("n", 1)


def answer(view):
    return al.say("done") if view.calls("add") else al.call("add", a=1, b=2)


SUM = al.Task(
    name="sum", goal="Add 1 and 2.", tools=[add], steps=[al.step("add", tool="add")], model=answer,
    params={"n": 1, "kept": "as declared"}, durability="process",
)
NUMBER = 5
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module of one's own, in which one stands, and from which an installed agentlab does not import."""
    name = f"adding_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"broken_{name}.py").write_text("import nothing_like_this\n")
    (tmp_path / f"raising_{name}.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    importlib.invalidate_caches()
    yield name
    sys.modules.pop(name, None)


def test_every_verb_takes_a_task_of_a_module_and_reads_values_as_a_cell_does(here, capsys):
    named = f"{here}:SUM"
    assert (
        main(["run", named, "--session", "one", "--param", "n=5", "--limit", "max_turns=7", "--limit", "tokens=20k"])
        == 0
    )
    ran = Lab("lab").session("one").definition
    assert ran.params == {"n": 5, "kept": "as declared"} and (ran.limits.max_turns, ran.limits.tokens) == (7, 20_000)
    call = next(event for event in Lab("lab").session("one").replay() if event.type == "tool_result")
    assert "11" in str(call.payload)
    asked = ["compare", named, "--policy", "every=5", "--seeds", "1", "--workers", "1"]
    assert main([*asked, "--param", "n=5"]) == 0 and main([*asked, "--param", "n=five"]) == 0
    rows = [event.payload for name in Lab("lab").store.sessions() if name.startswith("compare-sum")
            for event in Lab("lab").session(name).replay() if event.type == "run_recorded"]  # fmt: skip
    # A number for n is added; a text for it is no number to multiply with.
    assert [sorted(row["row"]["completed"] for row in rows)] == [[False, True]], capsys.readouterr().err
    assert main(["explore", named, "--single", "--json"]) == 0


def test_a_task_of_a_module_that_can_not_be_had_is_refused_alike_everywhere(here, capsys):
    for asked, said in (
        (f"{here}:SUN", f"no task in {here} named 'SUN': did you mean SUM?"),
        (here + ":NUMBER", f"{here}:NUMBER is of type int, not a Task"),
        (here[:-1] + ":SUM", f"no module named {here[:-1]!r}: did you mean {here}"),
        (f"broken_{here}:SUM", f"module broken_{here} can not be imported: No module named 'nothing_like_this'"),
        (f"raising_{here}:SUM", f"module raising_{here} can not be imported: ZeroDivisionError"),
        ("../adding:SUM", "no task named '../adding:SUM': known: sales_report"),
    ):
        for verb in ("run", "compare", "explore"):
            assert main([verb, asked]) == 2
            assert said in capsys.readouterr().err, (verb, asked)
        with pytest.raises((UnknownName, BadDefinition)) as refused:
            task_named(asked, {})
        assert said in str(refused.value)
