"""Generated conversations: a seeded model that does everything a model may do, and a watcher on every request."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from agentlab.definition import BUILTIN_TOOLS, Definition, Limits, PolicySpec, StepSpec, ToolSpec
from agentlab.events import canonical
from agentlab.harness.loop import run
from agentlab.harness.rig import Rig
from agentlab.harness.simulation import SimulatedWorld
from agentlab.models.pairing import check_messages
from agentlab.models.scripted import call, say, statement
from agentlab.models.tokens import estimate_tokens, quarter
from agentlab.models.view import View
from agentlab.ports import ModelReply, ModelRequest, Usage

GOAL = 'Reconcile the "Q2" ledger\nwith the bank\'s file <b>exactly</b>; nothing else, ünïcode included.'
CONSTRAINTS = ("Never post to 2022.", "Amounts keep two digits; no rounding \\ no floats.")
OPEN = {"type": "object", "properties": {}}
PIECES = (
    "plain words ",
    '{"k": "v", ',
    "line\nline\n",
    "\\\\path\\",
    '"quoted" ',
    "tab\tand \x01\x02 controls ",
    "日本語テキスト ",
    "🙂",
)


def text(rng: random.Random, length: int) -> str:
    """Text of about ``length`` characters, with everything that JSON escapes."""
    piece = rng.choice(PIECES)
    return (piece * (length // len(piece) + 1))[:length]


class Tools:
    """Tools whose results are of every shape and size; some fail."""

    def __init__(self, seed: int, largest: int) -> None:
        self.rng, self.largest = random.Random(seed), largest

    def look(self, **_: Any) -> Any:
        rng = self.rng
        size = rng.choice((0, 5, 80, 400, 2_000, self.largest))
        return rng.choice(
            (text(rng, size), {"rows": [text(rng, size)], "order_id": rng.randint(1, 9)}, None, [1, {"a": "b"}] * 9)
        )

    def fail(self, **_: Any) -> Any:
        raise ValueError(text(self.rng, self.rng.choice((10, 3_000))))


class Talker:
    """A model that talks, calls several tools at once, pins facts, and now and then says nothing but words."""

    name = "scripted:talker"
    tools: tuple[str, ...] = ("look", "look", "look", "fail", "remember", "recall", "nonsense")

    def __init__(self, seed: int, check: Callable[[ModelRequest], None], longest: int) -> None:
        self.rng, self.check, self.longest = random.Random(seed), check, longest

    def params(self) -> Mapping[str, Any]:
        return {}

    def complete(self, request: ModelRequest, on_text: Any = None) -> ModelReply:
        self.check(request)
        if request.purpose == "statement":
            content: list[dict[str, Any]] = [statement(View(request))]
        else:
            content = [say("so far so good")] if request.purpose != "act" else self._act()
        return ModelReply(content, "tool_use", Usage(1, 1), self.name)

    def _act(self) -> list[dict[str, Any]]:
        rng = self.rng
        content: list[dict[str, Any]] = [say(text(rng, rng.choice((3, 40, 300, self.longest))))]
        for number in range(rng.choice((0, 1, 1, 1, 2, 5))):
            name = rng.choice(self.tools)
            arguments: dict[str, Any] = {"n": rng.randint(1, 10**6), "what": text(rng, rng.choice((5, 60, 500)))}
            if name == "remember":
                arguments = {
                    "name": f"fact {rng.randint(1, 40)}",
                    "value": text(rng, rng.choice((4, 60))) + str(number),
                }
            if name == "recall":
                arguments = {"from_seq": rng.randint(1, 200), "to_seq": rng.randint(1, 200)}
            content.append({**call(name, **arguments), "id": f"toolu_{rng.getrandbits(60):x}"})
        return content


class Watcher:
    """What has to hold for every request of a session; counts what it saw."""

    def __init__(self, window: int) -> None:
        self.window, self.requests, self.largest, self.calls = window, 0, 0, 0
        self.fixed: set[str] = set()
        self.rig: Rig | None = None

    def __call__(self, request: ModelRequest) -> None:
        check_messages(request.messages, ask=True)
        size = estimate_tokens(request, quarter)
        assert size <= self.window, f"{size} tokens in a window of {self.window}"
        self.fixed.add(canonical([list(map(dict, request.system)), list(map(dict, request.tools))]))
        shown = "\n".join(b["text"] for m in request.messages for b in m["content"] if b["type"] == "text")
        system = "\n".join(b["text"] for b in request.system)
        assert GOAL in shown
        assert all(constraint in system for constraint in CONSTRAINTS)
        assert self.rig is not None
        for name, value in self.rig.state.context.anchors.items():
            assert f"- {name}: {value}" in shown
        if request.purpose == "act":
            assert "Current step 1 of 1: reconcile" in shown, "the task summary is restated"
        self.requests += 1
        self.largest = max(self.largest, size)


def definition(window: int, turns: int, context: Mapping[str, Any]) -> Definition:
    """One long step that nothing ends, under a small window."""
    tools = tuple(
        ToolSpec(name, "It does.", OPEN, ref={"kind": "local", "name": name}) for name in ("look", "fail", "finish")
    )
    return Definition(
        task="ledger",
        goal=GOAL,
        model="scripted:talker",
        constraints=CONSTRAINTS,
        steps=(StepSpec("reconcile", "Compare both sides", tool="finish", parameters={"quarter": "Q2"}),),
        tools=(*tools, *BUILTIN_TOOLS.values()),
        limits=Limits(
            max_turns=turns, rounds_per_step=None, errors_in_a_row=None, context_tokens=window, retries={"work": 10**6}
        ),
        policy=PolicySpec("never"),
        guard={"enabled": False},
        context=context,
    )


def conversation(
    seed: int, window: int, turns: int, context: Mapping[str, Any], largest: int = 40_000, longest: int = 1_500
) -> tuple[Watcher, SimulatedWorld, Rig]:
    """Run a generated conversation to its turn limit (or a pause) under the watcher's eyes."""
    watcher, world, rig = accepted(seed, window, turns, context, largest, longest)
    run(rig)
    return watcher, world, rig


def accepted(
    seed: int, window: int, turns: int, context: Mapping[str, Any], largest: int = 40_000, longest: int = 1_500
) -> tuple[Watcher, SimulatedWorld, Rig]:
    """The same, woken and not driven yet."""
    watcher, tools = Watcher(window), Tools(seed, largest)
    talker = Talker(seed, watcher, longest)
    world = SimulatedWorld(model_of=lambda d: talker, resolve=lambda ref: getattr(tools, str(ref["name"])))
    world.accept(definition(window, turns, context), "s")
    rig = watcher.rig = world.wake("s")
    return watcher, world, rig
