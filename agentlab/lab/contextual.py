"""The context of a session as a person looks at it: layers and sizes, what went, what is pinned, how far it drifted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agentlab.context import WHOLE, ContextSpec, estimate_tokens, task_text
from agentlab.counting import counted
from agentlab.harness.asking import fixed_layer
from agentlab.lab.showing import Rich

if TYPE_CHECKING:
    from agentlab.events import Event
    from agentlab.lab.recorded import RecordedSession


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the next request: its estimated tokens, how many pieces it has, and what they are."""

    name: str
    tokens: int
    pieces: int
    what: str


@dataclass(frozen=True, slots=True)
class Compaction:
    """One compaction: event, strategy, blocks that went and results that were shortened, scratch before and after."""

    seq: int
    strategy: str
    dropped: int
    shortened: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class Drift:
    """One measure: the event that carries it, the distance, and whether the task was put on top again."""

    seq: int
    distance: float
    restated: bool = False
    by: str = "words"


@dataclass(frozen=True, repr=False)
class ContextReport(Rich):
    """What the model sees next, and what it saw before.

    ``layers`` are *fixed*, *task* and *scratch*; ``window`` is the limit in tokens; ``pinned`` are the anchors;
    ``compactions`` and ``drift`` come from the log; ``summary`` is what stands for rounds that went.
    """

    session_id: str
    spec: ContextSpec
    window: int
    layers: tuple[Layer, ...]
    pinned: Mapping[str, str]
    summary: str
    dropped: int
    compactions: tuple[Compaction, ...]
    drift: tuple[Drift, ...]
    restated: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Estimated tokens of the next request."""
        return sum(layer.tokens for layer in self.layers)

    def head(self) -> str:
        """The size against the window."""
        share = 100 * self.tokens / self.window
        return f"context of {self.session_id}: about {self.tokens:,} of {self.window:,} tokens ({share:.1f} %), {self.spec.strategy}"

    def tables(self) -> Sequence[tuple[Sequence[str], Sequence[Sequence[Any]]]]:
        """Layers, pinned facts, compactions, drift."""
        layers = [(x.name, f"{x.tokens:,}", x.pieces, x.what) for x in self.layers]
        cuts = [
            (c.seq, c.strategy or "nothing left", c.dropped, c.shortened, f"{c.tokens_before:,}", f"{c.tokens_after:,}")
            for c in self.compactions[-8:]
        ]
        out: list[tuple[Sequence[str], Sequence[Sequence[Any]]]] = [
            (("layer", "tokens", "pieces", "what"), layers),
            (("pinned", "value"), [(name, _line(value)) for name, value in self.pinned.items()]),
            (("compacted at", "strategy", "blocks dropped", "results shortened", "tokens before", "after"), cuts),
        ]
        if self.drift:
            newest = self.drift[-1]
            told = ", ".join(map(str, self.restated)) or "never"
            largest = max(d.distance for d in self.drift)
            row = (f"{newest.distance:.2f}", f"{largest:.2f}", f"{self.spec.drift_threshold:.2f}", told)
            out.append((("drift now", "largest", "threshold", "task restated at"), [row]))
        return tuple(out)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "session_id": self.session_id,
            "spec": self.spec.to_json(),
            "window": self.window,
            "tokens": self.tokens,
            "layers": [asdict(layer) for layer in self.layers],
            "pinned": dict(self.pinned),
            "summary": self.summary,
            "dropped": self.dropped,
            "compactions": [asdict(c) for c in self.compactions],
            "drift": [asdict(d) for d in self.drift],
            "restated": list(self.restated),
        }


def context_report(session: RecordedSession) -> ContextReport:
    """The context of a session as of now. Reads the whole log once, changes nothing."""
    state, definition = session.state, session.definition
    compactions: list[Compaction] = []
    drift: list[Drift] = []
    for event in session.replay(1):
        if event.type == "context_compacted":
            compactions.append(_compaction(event))
        found = _drift(event)
        if found is not None and not (
            drift and drift[-1].by == "words" and drift[-1].restated and drift[-1].seq == found.seq - 1
        ):
            drift.append(found)  # what is told right before a request is the measure of that request
    context = state.context
    system, tools = fixed_layer(definition)
    fixed = sum(len(block.text) for block in (*system, *tools))
    task = task_text(definition.goal, definition.user_input, (), definition.params, context.anchors)
    shortened = sum(1 for b in context.blocks if b.cap != WHOLE)
    rounds = len({b.round for b in context.blocks})
    scratch = counted(rounds, "round") + (f", {counted(shortened, 'result')} shortened" if shortened else "")
    scratch += f"; {counted(context.dropped, 'block')} dropped before" if context.dropped else ""
    scratch += f"; {counted(len(context.notes), 'note')} to tell" if context.notes else ""
    rules = counted(len(definition.constraints), "constraint")
    about = len(context.summary) + sum(map(len, context.notes))
    layers = (
        Layer(
            "fixed",
            estimate_tokens(fixed),
            len(system) + len(tools),
            f"role, rules, {rules}, {counted(len(tools), 'tool')}; marked for the prompt cache",
        ),
        Layer(
            "task",
            estimate_tokens(len(task)),
            1 + len(context.anchors),
            f"goal, {len(definition.params)} parameters, {len(context.anchors)} of {context.spec.anchors} anchors",
        ),
        Layer("scratch", context.tokens + estimate_tokens(about), len(context.blocks), scratch),
    )
    return ContextReport(
        session_id=session.id,
        spec=context.spec,
        window=definition.limits.context_tokens,
        layers=layers,
        pinned=dict(context.anchors),
        summary=context.summary,
        dropped=context.dropped,
        compactions=tuple(compactions),
        drift=tuple(drift),
        restated=tuple(d.seq for d in drift if d.restated),
    )


def _compaction(event: Event) -> Compaction:
    p = event.payload
    return Compaction(
        event.seq,
        p["strategy"],
        p["dropped"]["blocks"],
        (p.get("shortened") or {}).get("blocks", 0),
        p["tokens_before"],
        p["tokens_after"],
    )


def _drift(event: Event) -> Drift | None:
    p = event.payload
    if event.type == "drift_measured":
        return Drift(event.seq, p["distance"], p["restated"], p.get("by", "words"))
    if event.type == "model_request":
        distance = p["layers"].get("task", {}).get("drift")
        return None if distance is None else Drift(event.seq, distance)
    return None


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:99] + "…"
