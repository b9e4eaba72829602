"""The guard as a fold: ``observe`` takes a state and a call and gives the next state and perhaps a finding.

The first finding about a repetition is a *nudge*, a message that names it to the model. If it goes on, the next is
the policy's final action, once. What begins after a verdict is a new repetition and is nudged first again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from agentlab.guard.action import Action
from agentlab.guard.fingerprint import CHANGE, FRESH, SIBLING, SLEEP, SLEPT, Fingerprint, fingerprint
from agentlab.guard.policy import GuardPolicy
from agentlab.guard.rules import ALL, NUDGE, Suspicion, sleeping

STATE_VERSION = 1
Verdict = Literal["nudge", "pause", "stop"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict: the rule, what to do, the seqs of the calls that prove it, and the words for the model."""

    rule: str
    action: Verdict
    evidence: tuple[int, ...]
    message: str

    @property
    def at(self) -> int:
        """The seq at which it was found."""
        return self.evidence[-1] if self.evidence else 0


@dataclass(frozen=True, slots=True)
class GuardState:
    """All that the guard remembers; its size does not grow with the session.

    ``verdict_seq`` and ``verdict_level`` are the newest verdict: evidence that reaches back to it is the same
    streak. ``rounds`` counts the rounds of the current ``step``.
    """

    window: tuple[Fingerprint, ...] = ()
    verdict_seq: int = -1
    verdict_level: int = 0
    rounds: int = 0
    step: int | None = None
    batch: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; :meth:`from_json` is its inverse."""
        return {
            "version": STATE_VERSION,
            "window": [[*f[:8], list(f.soft), f.flags, list(f.tick)] for f in self.window],
            "verdict": [self.verdict_seq, self.verdict_level],
            "rounds": self.rounds,
            "step": self.step,
            "batch": self.batch,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> GuardState:
        """A state from its JSON."""
        window = tuple(
            Fingerprint._make((*row[:8], tuple(row[8]), row[9], (row[10][0], row[10][1]))) for row in data["window"]
        )
        seq, level = data["verdict"]
        return GuardState(window, seq, level, data["rounds"], data["step"], data["batch"])


def observe(state: GuardState, action: Action, policy: GuardPolicy) -> tuple[GuardState, Finding | None]:
    """The state after ``action`` and what is to be said about it. Pure."""
    if action.after_person:
        state = resumed(state)
    sibling = action.batch is not None and action.batch == state.batch
    if action.step is not None and action.step != state.step:
        state = replace(new_step(state), step=action.step)
    rounds = state.rounds + (not sibling)
    if not policy.enabled:
        return replace(state, rounds=rounds, batch=action.batch), None
    newest = _placed(fingerprint(action, policy.volatile, sibling=sibling), state.window)
    window = (*state.window, newest)[-policy.window :]
    suspicion = _strongest(window, policy)
    seq, level, finding = state.verdict_seq, state.verdict_level, None
    if suspicion:
        finding = _verdict(suspicion, state, policy)
        if finding:
            seq, level = newest.seq, NUDGE if finding.action == "nudge" else NUDGE + 1
    return GuardState(window, seq, level, rounds, state.step, action.batch), finding


def _placed(newest: Fingerprint, window: tuple[Fingerprint, ...]) -> Fingerprint:
    flags = newest.flags
    if flags & CHANGE and all(f.key != newest.key for f in window):
        flags |= FRESH
    if window and window[-1].flags & SLEEP:
        flags |= SLEPT
    return newest if flags == newest.flags else newest._replace(flags=flags)


def _strongest(window: tuple[Fingerprint, ...], policy: GuardPolicy) -> Suspicion | None:
    newest = window[-1]
    if newest.flags & SIBLING:
        return None
    if newest.flags & SLEEP:
        return sleeping(window, policy) if "repeat" in policy.rules else None
    stream = [f for f in window if not f.flags & (SLEEP | SIBLING)]
    best: Suspicion | None = None
    for name in policy.rules:
        found = ALL[name](stream, policy)
        if found and (best is None or found.level > best.level):
            best = found
    return best


def _verdict(suspicion: Suspicion, state: GuardState, policy: GuardPolicy) -> Finding | None:
    told = state.verdict_level if suspicion.seqs[0] <= state.verdict_seq else 0
    if told == 0:
        action: Verdict = "nudge"
    elif told == NUDGE and suspicion.level > NUDGE:
        action = policy.final
    else:
        return None
    return Finding(suspicion.rule, action, suspicion.seqs, _message(suspicion, action))


def _message(suspicion: Suspicion, action: Verdict) -> str:
    seqs = suspicion.seqs
    shown = ", ".join(map(str, seqs if len(seqs) <= 8 else (*seqs[:3], "…", *seqs[-3:])))
    said = f"Repetition found: {suspicion.what} (events {shown})."
    if action == "nudge":
        return (
            f"{said} Doing it again will not bring anything new. Say what you expected and what the results show "
            "instead, then do something different: another tool, other input, or ask for help. If it goes on, the "
            "run is halted."
        )
    return f"{said} It went on after a warning."


def new_step(state: GuardState) -> GuardState:
    """The state at the beginning of a plan step: rounds count from zero, the window stays."""
    return replace(state, rounds=0)


def resumed(state: GuardState) -> GuardState:
    """The state after a person let the run go on: what came before is forgiven, so that it is not halted at once."""
    return GuardState(step=state.step)


def round_cap(state: GuardState, policy: GuardPolicy) -> Finding | None:
    """The final action, without a nudge, once a step has used up its rounds; asked before the next round."""
    cap = policy.rounds_per_step
    if not policy.enabled or cap is None or state.rounds < cap:
        return None
    seqs = tuple(f.seq for f in state.window if not f.flags & SIBLING)[-cap:]
    where = "this step" if state.step is None else f"step {state.step}"
    return Finding("rounds", policy.final, seqs, f"{where} has used {state.rounds} of {cap} rounds without being done.")
