"""From what users write to a definition, and what is said when it can not be."""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from agentlab import authoring, tasknames
from agentlab.authoring import Step, Task, Tool, register_task, step, task, task_names, tool, validator
from agentlab.definition import BUILTIN_TOOLS, Limits, PolicySpec, from_json
from agentlab.errors import BadDefinition, UnknownName, UserError
from agentlab.models.anthropic import AnthropicModel
from agentlab.models.scripted import ScriptedModel, say
from agentlab.ports import Resources

STORED: dict[str, bytes] = {}


def put(data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    STORED[digest] = data
    return digest


def read(path: str) -> str:
    """Read a file.

    It is small.
    """
    return path


@tool(effect="pure", kind="query", retries=2)
def decorated(n: int) -> int:
    """Add one."""
    return n + 1


def was_sent(key: str) -> str:
    return "unknown"


def policy(view: Any) -> Any:
    return say("done")


def satisfied() -> bool:
    return True


def basic(**changes: Any) -> Task:
    return Task(**{"name": "t", "goal": "Do it.", "tools": [read], "model": "scripted:x:y", **changes})


def define(made: Task, **overrides: Any) -> Any:
    return made.define(put, **overrides)[0]


def test_a_tool_is_still_the_function() -> None:
    assert isinstance(decorated, Tool) and decorated(1) == 2
    assert (decorated.__name__, decorated.__doc__, decorated.effect) == ("decorated", "Add one.", "pure")
    assert tool(read).effect == "external"
    again = tool(decorated, name="other", retries=0)
    assert (again.name, again.effect, again.options["retries"]) == ("other", "pure", 0)


def test_a_whole_definition(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"1,2")
    made = basic(
        constraints=["Only May."],
        files={"in/a.csv": tmp_path / "a.csv", "b.txt": b"b", "c.txt": "two\nlines\n"},
        tools=[
            decorated,
            tool(read, name="send", verify=was_sent, honours_key=True, price_usd=0.25, volatile=["path"]),
        ],
        steps=[step("one", "First", kind="query", tool=decorated, milestone=True), step("two", validator=satisfied)],
        validator=validator(satisfied, effect="pure"),
        limits={"max_turns": 7},
        resources={"timeout_s": 9},
        policy="steps=1",
        params={"p": 1},
    )
    definition, dump, signature = made.define(put)
    assert (dump, signature) == (None, None)
    assert from_json(definition.to_json()) == definition
    first, second = definition.tools[:2]
    assert (first.name, first.kind, first.tries, first.description) == ("decorated", "query", 3, "Add one.")
    assert first.ref is not None and first.ref["name"] == f"{__name__}:decorated"
    assert (second.effect, second.price_microusd, second.volatile) == ("external", 250_000, ("path",))
    assert second.description == "Read a file.\n\nIt is small." and second.verify is not None
    assert {t.name for t in definition.tools[2:]} == BUILTIN_TOOLS.keys() - {"plan"}
    assert [STORED[d] for d in definition.files.values()] == [b"1,2", b"b", b"two\nlines\n"]
    assert [s.tool for s in definition.steps] == ["decorated", None] and definition.steps[0].milestone
    assert definition.validator is not None and definition.validator.effect == "pure"
    assert definition.steps[1].validator is not None and definition.steps[1].validator.effect == "sandboxed"
    assert (definition.limits, definition.resources) == (Limits(max_turns=7), Resources(timeout_s=9))
    assert definition.policy.kind != PolicySpec().kind


def test_a_task_without_steps_may_plan() -> None:
    assert define(basic()).tool("plan") is not None


def test_files_as_a_list_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f.txt").write_text("f")
    (tmp_path / "g.txt").write_text("g")
    assert list(define(basic(files=[tmp_path / "d", str(tmp_path / "g.txt")])).files) == ["d/e/f.txt", "g.txt"]


def test_validator_as_a_decorator() -> None:
    made = validator(effect="pure")(satisfied)
    assert made() is True and made.effect == "pure"
    assert validator(satisfied).effect == "sandboxed"


def test_overrides() -> None:
    assert define(basic(), goal="Else.", model="claude-x").model == "claude-x"
    with pytest.raises(UnknownName, match="goal"):
        define(basic(), gaol="x")


def test_callables_that_are_no_functions() -> None:
    class Adder:
        def __call__(self, n: int) -> int:
            return n + 1

    made = tool(functools.partial(read, path="x"), effect="pure")
    assert made.name == "read"
    definition, dump, signature = basic(tools=[made, tool(Adder(), name="adder")]).define(put)
    assert dump is not None and signature
    spec = definition.tool("adder")
    assert spec is not None and spec.input_schema["properties"] == {"n": {"type": "integer"}}
    assert spec.ref is not None and spec.ref["blob"] == hashlib.sha256(dump).hexdigest()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "a b"}, "'a b'"),
        ({"goal": " "}, "goal"),
        ({"model": None}, "names no model"),
        ({"model": 3}, "3 is no model"),
        ({"constraints": "Only May"}, "constraints is a list"),
        ({"tools": read}, "list of functions"),
        ({"tools": [read, read]}, "two tools are called 'read'"),
        ({"tools": [tool(read, name="recall")]}, "built-in"),
        ({"tools": [lambda x: x]}, "'<lambda>'"),
        ({"tools": [tool(read, name="r" * 65)]}, "1 to 64"),
        ({"tools": [3]}, "not from 3"),
        ({"tools": [tool(read, volatile=["pth"])]}, "did you mean path"),
        ({"steps": [step("a", tool="raed")]}, "did you mean read"),
        ({"steps": [step("a"), step("a")]}, "two steps are called 'a'"),
        ({"steps": [step("")]}, "id is a short text"),
        ({"steps": ["a"]}, "is no step"),
        ({"steps": [Step("a", kind="qury")]}, "did you mean query"),
        ({"steps": [step("a", validator=3)]}, "validator is a function"),
        ({"files": {"a": "/nowhere/a.csv"}}, "/nowhere/a.csv"),
        ({"files": {"../a": b""}}, "inside the workspace"),
        ({"files": {"/a": b""}}, "inside the workspace"),
        ({"files": {"@dump": b""}}, "inside the workspace"),
        ({"files": "a.csv"}, "list of paths"),
        ({"files": ["x/a.csv", "y/a.csv"]}, "two files are called 'a.csv'"),
        ({"limits": {"max_turn": 1}}, "did you mean max_turns"),
        ({"limits": 3}, "limits is a Limits"),
        ({"resources": {"timeout": 1}}, "did you mean timeout_s"),
        ({"scheme": "hybird"}, "did you mean hybrid"),
        ({"durability": "none"}, "durability"),
    ],
)
def test_what_is_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as raised:
        define(basic(**changes))
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"efect": "pure"}, "did you mean effect"),
        ({"effect": "pur"}, "did you mean pure"),
        ({"kind": "cod"}, "did you mean code"),
        ({"timeout_s": 0}, "above 0"),
        ({"retries": -1}, "retries=-1"),
        ({"effect": "pure", "verify": was_sent}, "nothing to verify"),
        ({"verify": "was_sent"}, "function of the key"),
        ({"volatile": "path"}, "('path',)"),
    ],
)
def test_bad_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as raised:
        tool(read, **options)
    assert says in str(raised.value)
    with pytest.raises(UserError):
        tool(**options)


def test_bad_step_and_validator_options() -> None:
    with pytest.raises(UnknownName, match="expected"):
        step("a", expcted="x")
    with pytest.raises(UnknownName, match="sandboxed"):
        validator(satisfied, effect="sandbox")  # type: ignore[call-overload]


def test_models() -> None:
    dotted = define(basic(model=policy))
    assert dotted.model == f"scripted:{__name__}:policy"
    assert dotted.model_ref is None or dotted.model_ref["kind"] == "dotted"
    made = AnthropicModel("claude-x", api_key="sk-ant-secret", temperature=0.5, base_url="http://127.0.0.1:9")
    claude = define(basic(model=made))
    assert (claude.model, claude.model_ref, claude.base_url) == ("anthropic:claude-x", None, "http://127.0.0.1:9")
    assert claude.model_params == {"temperature": 0.5} and "secret" not in str(claude.to_json())
    scripted = define(basic(model=ScriptedModel("agentlab.tasks.sales:policy", latency_s=0.5)))
    assert (scripted.model, scripted.model_ref) == ("scripted:agentlab.tasks.sales:policy", None)
    assert scripted.model_params == {"latency_s": 0.5}
    local = define(basic(model=ScriptedModel(lambda view: say("x"))))
    assert local.model_ref is not None and local.model_ref["kind"] == "dump"


def test_builtin_tasks() -> None:
    assert {"sales_report", "sea_table"} <= set(task_names())
    definition, dump, _ = task("sales_report").define(put)
    assert dump is None and all("sys_path" not in ref for ref in definition.refs())
    with pytest.raises(UnknownName, match="did you mean sales_report"):
        task("sales_repot")


def test_registered_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasknames, "_registered", {})
    made = register_task(basic(name="mine"))
    assert task("mine") is made and "mine" in task_names()
    newer = register_task(basic(name="mine", goal="New."))
    assert task("mine") is newer


def test_tasks_of_installed_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("their_tasks")
    module.ONE, module.OTHER = basic(name="one"), 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "their_tasks", module)
    places = {"one": "their_tasks:ONE", "other": "their_tasks:OTHER", "gone": "their_tasks:GONE"}
    monkeypatch.setattr(tasknames, "_places", lambda: places)
    assert authoring.task("one") is module.ONE
    for name, says in (("other", "a int"), ("gone", "can not be imported")):
        with pytest.raises(BadDefinition, match=says):
            task(name)
