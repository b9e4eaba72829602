"""The guard over a session that runs, has ended or was imported: what repeats in it, with the calls that prove it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentlab.counting import counted
from agentlab.errors import BadDefinition
from agentlab.events import canonical, plain
from agentlab.guard import Finding, GuardPolicy, findings, findings_in
from agentlab.guard.action import Action, actions_from_events
from agentlab.lab.showing import Rich

if TYPE_CHECKING:
    from agentlab.lab.recorded import RecordedSession

SHOWN = 4
"""Calls of a finding's evidence that are shown; all are in ``evidence``."""


def guard_findings(
    source: RecordedSession | Iterable[Any], policy: GuardPolicy | Mapping[str, Any] | None = None
) -> list[Finding]:
    """Every verdict that the guard gives on a session or on the events of one, in order.

    ``source`` is a session, or events with ``type``, ``payload``, ``seq`` and ``step`` (of a live log or of an import).
    Nothing is run and nothing is written. ``policy`` is the session's own unless one is given. The cap of rounds in a
    step is no finding here: it is an end that the task sets, and is among the recorded verdicts of a session that
    met it.

    Raises:
        BadDefinition: a policy with a setting that does not exist, or a source that is neither.
    """
    chosen = GuardPolicy.from_json(policy) if isinstance(policy, Mapping) else policy
    events, own = _events(source)
    return findings_in(events, chosen or own)


def _events(source: Any) -> tuple[Iterable[Any], GuardPolicy | None]:
    if hasattr(source, "replay") and hasattr(source, "state"):
        return source.replay(1), _own(source)
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes, Mapping)):
        events = list(source)
        if all(hasattr(event, "type") and hasattr(event, "payload") for event in events):
            return events, None
    raise BadDefinition(
        f"the guard looks at a session (lab.session(ID)) or at its events, not at {type(source).__name__}: {source!r:.60}"
    )


def _own(session: RecordedSession) -> GuardPolicy:
    """The session's policy, switched on: a look back costs nothing and halts nobody."""
    return replace(session.state.loop.policy, enabled=True)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A verdict as the log has it: what was done about a repetition while it happened."""

    seq: int
    rule: str
    action: str
    evidence: tuple[int, ...]
    message: str
    checkpoint_seq: int | None = None


@dataclass(frozen=True, repr=False)
class GuardReport(Rich):
    """What the guard says of a session.

    ``findings`` come from the whole log under the policy; ``recorded`` are the verdicts given while it ran (also of the
    cap of rounds); ``calls`` maps the seqs of evidence to what was called and what came back; ``seen`` counts the calls
    that were looked at; ``rounds`` and ``cap`` are those of the step in progress (None without a cap).
    """

    session_id: str
    policy: GuardPolicy
    findings: tuple[Finding, ...]
    recorded: tuple[Recorded, ...]
    calls: Mapping[int, str]
    seen: int
    rounds: int
    cap: int | None

    def head(self) -> str:
        """How many calls were looked at, and what was found."""
        what = counted(len(self.findings), "finding") if self.findings else "no repetition"
        off = "" if self.policy.enabled else "; it was switched off while this ran"
        cap = f"; round {self.rounds} of {self.cap} in this step" if self.cap is not None and self.rounds else ""
        return f"guard of {self.session_id}: {what} in {counted(self.seen, 'call')}{cap}{off}"

    def tables(self) -> Sequence[tuple[Sequence[str], Sequence[Sequence[Any]]]]:
        """Findings with their evidence, then the verdicts that are on record."""
        rows: list[tuple[Any, ...]] = []
        for f in self.findings:
            rows.append((f.at, f.rule, f.action, f.message.partition(". ")[0].removeprefix("Repetition found: ")))
            seqs = f.evidence if len(f.evidence) <= SHOWN else (*f.evidence[: SHOWN - 1], f.evidence[-1])
            rows += [("", "", f"event {seq}", self.calls.get(seq, "")) for seq in seqs]
            if len(f.evidence) > SHOWN:
                rows.insert(-1, ("", "", "…", f"{len(f.evidence) - SHOWN} more"))
        kept = [(r.seq, r.rule, r.action, _line(r.message, 160)) for r in self.recorded]
        return ((("at", "rule", "action", "what"), rows), (("recorded at", "rule", "action", "what"), kept))

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "session_id": self.session_id,
            "policy": self.policy.to_json(),
            "findings": [{**asdict(f), "evidence": list(f.evidence), "at": f.at} for f in self.findings],
            "recorded": [{**asdict(r), "evidence": list(r.evidence)} for r in self.recorded],
            "calls": {str(seq): line for seq, line in self.calls.items()},
            "seen": self.seen,
            "rounds": self.rounds,
            "cap": self.cap,
        }


def guard_report(session: RecordedSession, policy: GuardPolicy | Mapping[str, Any] | None = None) -> GuardReport:
    """The guard's view of a session as of now. Reads the whole log once, changes nothing."""
    chosen = GuardPolicy.from_json(policy) if isinstance(policy, Mapping) else policy
    state, recorded = session.state, []
    seen: list[Any] = []
    for event in session.replay(1):
        if event.type == "guard_verdict":
            p = event.payload
            recorded.append(
                Recorded(
                    event.seq,
                    p["rule"],
                    p["action"],
                    tuple(p["evidence"]),
                    p.get("message", ""),
                    p.get("checkpoint_seq"),
                )
            )
        seen.append(event)
    actions = actions_from_events(seen)
    found = findings(actions, chosen or _own(session))
    wanted = {seq for f in found for seq in f.evidence}
    wanted |= {seq for r in recorded for seq in r.evidence}
    step = state.plan.started and state.step is not None
    return GuardReport(
        session_id=session.id,
        policy=chosen or state.loop.policy,
        findings=tuple(found),
        recorded=tuple(recorded),
        calls={a.seq: call_line(a) for a in actions if a.seq in wanted},
        seen=len(actions),
        rounds=state.plan.rounds if step else 0,
        cap=session.definition.limits.rounds_per_step if state.seq and step else None,
    )


def call_line(action: Action) -> str:
    """A call and its outcome in one line."""
    said = action.error_text if action.outcome == "error" else action.result_text
    sign = "!" if action.outcome == "error" else "→"
    return f"{action.tool} {_line(canonical(plain(action.input)), 60)} {sign} {_line(said or '', 60)}"


def _line(text: str, limit: int) -> str:
    line = " ".join("".join(islice(text, 4 * limit)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
