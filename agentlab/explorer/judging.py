"""The oracle: it stands outside the harness that died, and looks at the log, the outside and the sandboxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentlab.errors import AgentlabError
from agentlab.events import GENESIS, Event, Head, verify_chain
from agentlab.explorer.driving import Run
from agentlab.explorer.implied import spending, workspace
from agentlab.explorer.world import World
from agentlab.log.memory import MemoryLog
from agentlab.session.fold import fold_all
from agentlab.session.state import State
from agentlab.session.superseding import is_superseded, ranges

Found = tuple[str, str]
"""The invariant that is broken, and what was seen."""

OPEN_ENDS = ("waiting", "paused")


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """What the task gives when nothing happens."""

    why: str
    outcome: str
    answer: str
    snapshot: str
    operations: Counter[str] = field(default_factory=Counter)
    events: int = 0

    @classmethod
    def of(cls, world: World, run: Run) -> Undisturbed:
        """From a run that nobody disturbed."""
        outcome, answer, snapshot = _result(list(world.log.replay(1)))
        return cls(run.why, outcome, answer, snapshot, world.outside.counts(), world.log.head().seq)


def _result(events: Sequence[Event]) -> tuple[str, str, str]:
    for event in reversed(events):
        if event.type == "session_ended":
            result = event.payload["result"]
            return str(event.payload["outcome"]), str(result.get("answer")), str(result.get("snapshot"))
    return "", "", ""


def judge(world: World, run: Run, base: Undisturbed, checked: Head, power: bool = False) -> list[Found]:
    """Every invariant that is broken after ``run``. Rows up to ``checked`` are known to be good.

    A run that was merged is judged as far as it went: the rest has been judged where it went on.
    """
    events = list(world.log.replay(1))
    found: list[Found] = [tuple(c.split(": ", 1)) for c in world.complaints]  # type: ignore[misc]
    found += _log(world, events, checked, power)
    found += _effects(world, events, base)
    found += _work(events, world.subject.definition.scheme)
    requests = sum(e.type == "model_request" for e in events)
    if world.asked > requests and not power:
        found.append(("budget", f"the model was asked {world.asked} times, {requests} requests are on record"))
    if world.life.late:
        found.append(("no zombie", f"after its death a harness used {world.life.late[0]}"))
    if run.why in ("merged", "gone"):
        return found
    if run.why == "failed" or run.error:
        return [*found, ("recovery", run.error)]
    return found + _end(world, run, events, base)


def _log(world: World, events: list[Event], checked: Head, power: bool) -> list[Found]:
    if any(event.seq != index for index, event in enumerate(events, 1)):
        return [("log", "the events have a gap")]
    good = min(checked.seq, len(events))
    start = Head(good, events[good - 1].hash) if good else Head(0, GENESIS)
    try:
        verify_chain(events[good:], start)
    except AgentlabError as error:
        return [("log", f"the chain is broken: {error}")]
    acked = world.acked
    if not power and (acked.seq > len(events) or events[acked.seq - 1].hash != acked.hash):
        return [("acknowledged", f"event {acked.seq} was acknowledged and is not there")]
    return []


def _effects(world: World, events: list[Event], base: Undisturbed) -> list[Found]:
    # A harness that was stopped after its last fence check sends what it had begun; a takeover on the same host kills first.
    spare = sum(e.type == "effect_settled" for e in events) + world.zombie
    found: list[Found] = []
    for operation, count in world.outside.counts().items():
        allowed = base.operations.get(operation, 0)
        if count > max(1, allowed) + spare:
            found.append(
                ("effects", f"{operation[:120]!r} happened {count} times outside, {max(1, allowed)} undisturbed")
            )
    return found


def _standing(events: list[Event]) -> list[Event]:
    """The events that no restore has set aside."""
    aside = ranges(events)
    return [e for e in events if not is_superseded(e.seq, aside)] if aside else events


def _unbounded(events: list[Event]) -> str:
    """Whether a recovery that goes back to a checkpoint went back further than to the newest one."""
    cursor = 0
    for event in events:
        if event.type == "checkpoint_written":
            cursor = int(event.payload["cursor"])
        elif event.type == "restored_to" and int(event.payload["cursor"]) < cursor:
            return (
                f"event {event.seq} goes back to {event.payload['cursor']}, the newest checkpoint stands for {cursor}"
            )
    return ""


def _work(everything: list[Event], scheme: str) -> list[Found]:
    found: list[Found] = []
    events = _standing(everything)
    results = Counter(e.payload["call_id"] for e in events if e.type in ("tool_result", "tool_error"))
    twice = [call_id for call_id, count in results.items() if count > 1]
    if twice:
        found.append(("results", f"call {twice[0]} has {results[twice[0]]} results"))
    done = Counter((e.attempt, e.payload["step_id"]) for e in events if e.type == "step_completed")
    again = [step for step, count in done.items() if count > 1]
    if again:
        found.append(("lost work", f"step {again[0][1]} was completed {done[again[0]]} times"))
    lost = [e for e in events if e.type == "recovery_completed" and e.payload["lost_steps"]]
    unbounded = _unbounded(everything)
    if unbounded:
        found.append(("lost work", unbounded))
    if lost and scheme != "snapshot":  # a scheme that goes back to its newest checkpoint loses what came after it
        found.append(("lost work", f"the recovery at event {lost[0].seq} lost {lost[0].payload['lost_steps']} steps"))
    unpaid = _unanswered(everything, sum(e.type == "harness_woken" for e in everything))
    if unpaid:
        found.append(("lost work", unpaid))
    return found


def _unanswered(events: list[Event], allowed: int) -> str:
    """Whether more was asked again than deaths can explain: model answers and tool results that are on record stand."""
    requests = sum(e.type == "model_request" for e in events)
    answers = sum(e.type in ("model_response", "model_error") for e in events)
    if requests - answers > allowed:
        return f"{requests - answers} model requests without an answer, {allowed} can be explained by a death"
    return ""


def _end(world: World, run: Run, events: list[Event], base: Undisturbed) -> list[Found]:
    # A zombie was fenced; how the session stands is what the harness made of it that took over.
    why = folded(world.log).control.status if run.why == "fenced" else run.why
    if why in OPEN_ENDS and why != base.why:
        doubt = any(e.type == "effect_in_doubt" for e in events)
        question = next((e for e in reversed(events) if e.type == "question_asked"), None)
        if why == "waiting" and doubt and question is not None and question.payload.get("kind") == "effect":
            return []  # honestly in doubt: a person decides
        return [("liveness", f"it rests {why} instead of {base.why}: {events[-1].type} {dict(events[-1].payload)}")]
    if why != base.why:
        return [("liveness", f"it is {why} instead of {base.why}")]
    found: list[Found] = []
    outcome, answer, snapshot = _result(events)
    misled = _misled(world, events)
    told = any(e.type == "sandbox_restored" and (e.payload["differs"] or e.payload.get("not_rerun")) for e in events)
    told = told or _told_of_errors(world, events) or misled
    if outcome != base.outcome and not (misled and outcome):
        found.append(("result", f"the outcome is {outcome or 'none'}, undisturbed it is {base.outcome}"))
    elif answer != base.answer and not (misled or _told_of_errors(world, events)):
        found.append(("result", f"the answer is {answer[:200]!r}, undisturbed it is {base.answer[:200]!r}"))
    elif snapshot != base.snapshot and not told and outcome == "completed":
        found.append(("workspace", "the workspace is another one than undisturbed, and the model was not told"))
    implied = workspace(world, _standing(events)) if outcome == "completed" and not told else ""
    if implied:
        found.append(("workspace", implied))
    wakes = sum(e.type == "harness_woken" for e in events)
    unanswered = _unanswered(events, wakes - 1)  # whoever brought it to its end had an answer to all that it asked
    if unanswered:
        found.append(("lost work", unanswered))
    unpaid = spending(events, folded(world.log))
    if unpaid:
        found.append(("budget", unpaid))
    missing = base.operations - world.outside.counts()
    lied = any(trouble.lies for trouble in world.wrong)  # what was sent instead came of a wrong result
    if missing and outcome == "completed" and not lied and not any(e.type == "effect_settled" for e in events):
        found.append(("effects", f"{next(iter(missing))[:120]!r} never happened outside, yet the task is complete"))
    standing = _standing(events)
    requested = {e.payload["call_id"] for e in standing if e.type == "tool_requested"}
    answered = {e.payload["call_id"] for e in events if e.type in ("tool_result", "tool_error")}
    if requested - answered:
        found.append(("results", f"call {min(requested - answered)} has no result"))
    world.sandboxes.expire()  # one that nobody has on record ends itself
    if run.why != "fenced" and world.log.replay(1) and outcome and world.sandboxes.alive():
        found.append(("orphans", f"sandbox {world.sandboxes.alive()[0]} is left over"))
    return found


def _told_of_errors(world: World, events: Sequence[Event]) -> bool:
    """Whether the model may well go another way: a strategy that tells it of the crash as an error of its call did so."""
    return world.subject.definition.strategy != "statement" and any(e.type == "recovery_completed" for e in events)


def _misled(world: World, events: Sequence[Event]) -> bool:
    """Whether misbehaving services gave the model another way to go: a tool lied, or a call of it failed and it was told."""
    if not world.wrong:
        return False
    return any(trouble.lies for trouble in world.wrong) or any(e.type == "tool_error" for e in events)


def budget_kept(before: State, after: State, exact: bool) -> list[Found]:
    """Whether a wake forgot spending: what was used stays used, and what was reserved stays counted.

    ``exact`` says that the harness that died knew all of the log: else a reservation may have been settled meanwhile.
    """
    for dimension, used in before.budget.used.items():
        if after.budget.used.get(dimension, 0) < used:
            return [
                ("budget", f"{dimension}: {used} was used, after the wake it is {after.budget.used.get(dimension, 0)}")
            ]
        if exact and after.budget.committed(dimension) < before.budget.committed(dimension):
            return [("budget", f"{dimension}: what was at risk is no longer counted")]
    return []


def folded(log: MemoryLog) -> State:
    """The state by the log alone, without any checkpoint."""
    return fold_all(State(hash=GENESIS), log.replay(1))


SOMETIMES: dict[str, tuple[str, Callable[[Event], Any]]] = {
    "a pending effect was seen at recovery": ("effect_verified", lambda e: True),
    "a pending effect was found done": ("effect_verified", lambda e: e.payload["outcome"] == "completed"),
    "a pending effect was found not done": ("effect_verified", lambda e: e.payload["outcome"] == "not_done"),
    "an effect was left in doubt": ("effect_in_doubt", lambda e: True),
    "a checkpoint was loaded at a wake": ("harness_woken", lambda e: e.payload.get("checkpoint_seq")),
    "a living sandbox was taken up again": ("sandbox_attached", lambda e: True),
    "a finished result waited in the sandbox": ("sandbox_attached", lambda e: e.payload["finished"]),
    "a lost sandbox was restored from a snapshot": ("sandbox_restored", lambda e: e.payload["snapshot"]),
    "recorded commands were run again": ("execution_rerun", lambda e: True),
    "a sandbox was found lost": ("sandbox_lost", lambda e: True),
    "the model stated where it is": ("statement_checked", lambda e: True),
}
"""States that must have been reached for a clean result to mean anything: a kind of event, and what it must show."""
INTERRUPTED = "a recovery was interrupted by a second crash"


TROUBLED: dict[str, tuple[str, Callable[[Event], Any]]] = {
    "a model call failed and was made again": ("model_error", lambda e: e.payload["will_retry"]),
    "a model call failed for good": ("model_error", lambda e: not e.payload["will_retry"]),
    "a tool failed and was tried again": ("retry_scheduled", lambda e: e.payload["what"] == "tool"),
    "an effect was not heard of, and was looked up": ("retry_scheduled", lambda e: e.payload["what"] == "verify"),
    "the model was told of a failed call": ("tool_error", lambda e: True),
}
"""The same for services that misbehave."""


def reached(
    events: Sequence[Event], statements: Mapping[str, tuple[str, Callable[[Event], Any]]] = SOMETIMES
) -> set[str]:
    """Those of ``statements`` that these events show."""
    by_kind: dict[str, list[Event]] = {}
    for event in events:
        by_kind.setdefault(event.type, []).append(event)
    seen = {INTERRUPTED} if _interrupted(events) else set()
    for name, (kind, shows) in statements.items():
        if kind in by_kind and any(shows(event) for event in by_kind[kind]):
            seen.add(name)
    return seen


def _interrupted(events: Sequence[Event]) -> bool:
    recovering = False
    for event in events:
        if event.type == "harness_woken":
            if recovering:
                return True
        elif event.type == "recovery_started":
            recovering = True
        elif event.type == "recovery_completed":
            recovering = False
    return False
