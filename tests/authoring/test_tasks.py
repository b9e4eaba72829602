"""Tools, steps and tasks as they are written: what is refused, by which name, and what stands when nothing is said."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import agentlab as al
from agentlab import authoring
from agentlab.definition import BUILTIN_TOOLS, Definition, from_json
from agentlab.errors import BadDefinition, UnknownName

from . import outside


def put(data: bytes) -> str:
    return f"{len(data):064x}"


def defined(task: al.Task | None = None, *, model: Any = None, **overrides: Any) -> Definition:
    given = task or al.Task("t", "Do it.", model="claude-x")
    return given.define(put, model=model, **overrides)[0]


def test_a_tool_that_says_nothing_is_external() -> None:
    spec = defined(tools=[outside.plain]).tool("plain")
    assert spec is not None and (spec.effect, spec.kind, spec.verify) == ("external", "work", None)
    assert spec.tries == 2 and spec.description == "Add one." and spec.needs_approval is False


def test_every_option_arrives() -> None:
    made = al.tool(
        outside.plain, name="p", description="D", effect="external", kind="downstream", retries=4, repeatable=False,
        repeat=True, once_per_content=True, verify=outside.policy, honours_key=True, settle_after_s=2.5, timeout_s=9,
        stateful_read=True, volatile=["n"], price_usd=0.25, needs_approval=True,
    )  # fmt: skip
    spec = defined(tools=[made]).tool("p")
    assert spec is not None and spec.ref is not None and spec.verify is not None
    assert (spec.description, spec.kind, spec.retries, spec.tries) == ("D", "downstream", 4, 5)
    assert (spec.repeatable, spec.repeat, spec.once_per_content, spec.honours_key) == (False, True, True, True)
    assert (spec.settle_after_s, spec.timeout_s, spec.stateful_read, spec.volatile) == (2.5, 9, True, ("n",))
    assert (spec.price_microusd, spec.needs_approval) == (250_000, True)
    assert spec.verify["name"].endswith(":policy") and spec.ref["name"].endswith(":plain")


@pytest.mark.parametrize("thing", [3, "outside.plain", [outside.plain]])
def test_a_tool_that_is_no_function(thing: Any) -> None:
    with pytest.raises(BadDefinition, match="from a function"):
        al.tool(thing)
    with pytest.raises(BadDefinition, match="from a function"):
        al.tool()(thing)


def star(*args: int) -> int:
    return 0


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"tools": [star]}, BadDefinition, r"star: \*args can not be given by name"),
        ({"steps": [al.step("a", tool="plane")], "tools": [outside.plain]}, UnknownName,
         "tool for step 'a' named 'plane': did you mean plain"),
        ({"files": {"a/../../b": b"x"}}, BadDefinition, "is no path inside the workspace"),
        ({"files": {"": b"x"}}, BadDefinition, "is no path inside the workspace"),
        ({"files": {".": b"x"}}, BadDefinition, "is no path inside the workspace"),
        ({"strategy": "silence"}, UnknownName, "no strategy named 'silence'"),
        ({"name": "x"}, UnknownName, "no task field named 'name'"),
    ],
)  # fmt: skip
def test_bad_tasks(changes: dict[str, Any], error: type[Exception], said: str) -> None:
    written: list[bytes] = []
    with pytest.raises(error, match=said):
        al.Task("t", "Do it.", model="claude-x").define(lambda data: written.append(data) or "", **changes)
    assert written == [], "nothing is stored of a task that is refused"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "a" * 65, "a\n"])
def test_bad_task_names(name: str) -> None:
    with pytest.raises(BadDefinition, match="a task's name has letters"):
        defined(al.Task(name, "Do it.", model="claude-x"))


def test_models_that_are_missing_or_none() -> None:
    with pytest.raises(BadDefinition, match="task 't' names no model: give model='claude-…'"):
        defined(al.Task("t", "Do it."))
    with pytest.raises(BadDefinition, match="3 is no model"):
        defined(model=3)
    assert defined(model="claude-y").model == "claude-y"
    policy = defined(model=outside.policy)
    assert policy.model == f"scripted:{outside.__name__}:policy"
    scripted = defined(model=al.ScriptedModel(lambda view: "x", name="mine"))
    assert scripted.model == "mine" and scripted.model_ref is not None and scripted.model_ref["kind"] == "dump"


def test_built_in_tools_are_there_and_plan_only_without_steps() -> None:
    names = {spec.name for spec in defined().tools}
    assert names == set(BUILTIN_TOOLS)
    assert {spec.name for spec in defined(steps=[al.step("a")]).tools} == set(BUILTIN_TOOLS) - {"plan"}


def test_overrides_change_nothing_of_the_task_and_all_is_json() -> None:
    task = al.Task("t", "Do it.", model="claude-x", limits={"max_turns": 7}, tools=[outside.plain])
    definition = defined(task, goal="Do that.", params={"a": 1}, limits=al.Limits(max_turns=3))
    assert (definition.goal, definition.params, definition.limits.max_turns) == ("Do that.", {"a": 1}, 3)
    assert task.goal == "Do it." and defined(task).limits.max_turns == 7
    assert from_json(definition.to_json()) == definition


# --- tasks by name -------------------------------------------------------------------------------------------------------


class Point:
    name, value = "of_a_package", "package_with_a_task:TASK"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Pretend that a package declares the task ``of_a_package``; what its module holds is given."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Point] if group == "agentlab.tasks" else [])

    def install(found: Any) -> None:
        module = types.ModuleType("package_with_a_task")
        module.TASK = found  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return install


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentlab import tasknames

    monkeypatch.setattr(tasknames, "_registered", {})


@pytest.mark.usefixtures("registry")
def test_tasks_of_packages_are_imported_when_asked_for(installed: Callable[[Any], None]) -> None:
    assert "of_a_package" in authoring.task_names() and "package_with_a_task" not in sys.modules
    with pytest.raises(BadDefinition, match="'of_a_package' .*package_with_a_task:TASK, which can not be imported"):
        authoring.task("of_a_package")
    installed(3)
    with pytest.raises(BadDefinition, match="not a Task"):
        authoring.task("of_a_package")
    given = al.Task("of_a_package", "Do it.")
    installed(given)
    assert authoring.task("of_a_package") is given


def test_built_in_tasks_can_be_defined() -> None:
    for name in authoring.BUILTIN:
        definition = defined(authoring.task(name), model="claude-x")
        assert definition.task == name and all(ref["kind"] == "dotted" for ref in definition.refs())
