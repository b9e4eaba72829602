"""Commands: what the harness is to do next, each one small value that can be printed before it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Command:
    """Base of all commands. ``io`` says whether carrying it out touches the world outside the log."""

    io: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The command's name."""
        return type(self).__name__

    def describe(self) -> str:
        """One line for a person, without ids that only tie it to its request."""
        shown = ", ".join(
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.name != "request_id" and getattr(self, f.name) not in ("", 0, None, ())
        )
        return f"{self.name}({shown})"

    def to_json(self) -> dict[str, Any]:
        """The command as plain data."""
        return {"command": self.name, **{f.name: getattr(self, f.name) for f in fields(self)}}


@dataclass(frozen=True, slots=True)
class Rest(Command):
    """Nothing to do: the session ended, is paused, or waits for a person."""

    why: str


@dataclass(frozen=True, slots=True)
class Pause(Command):
    """Rest until somebody resumes the session."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AwaitPlace(Command):
    """The lab runs as many sessions as it may: wait in the queue until a place is free."""

    io: ClassVar[bool] = True
    place: int


@dataclass(frozen=True, slots=True)
class RaiseAlert(Command):
    """Write down that a share of a limit is committed; a checkpoint follows."""

    dimension: str
    threshold: float


@dataclass(frozen=True, slots=True)
class DrawBudget(Command):
    """Have the lab's pool set more aside for this session: at least ``needs``, up to ``wishes``."""

    io: ClassVar[bool] = True
    needs: Mapping[str, int]
    wishes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class End(Command):
    """The task is over: ``completed`` or ``failed``."""

    outcome: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StartAttempt(Command):
    """Begin a pass of the outer loop."""

    attempt: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartStep(Command):
    """Begin a plan step."""

    number: int
    step_id: str
    kind: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class ValidateStep(Command):
    """Ask the validator of the step in progress; complete the step when it is satisfied."""

    io: ClassVar[bool] = True
    number: int
    step_id: str


@dataclass(frozen=True, slots=True)
class CompleteStep(Command):
    """Complete a step that has no validator."""

    number: int
    step_id: str
    summary: str


@dataclass(frozen=True, slots=True)
class Remind(Command):
    """Tell the model that its turn ended before the step did."""

    number: int
    step_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ValidateTask(Command):
    """Ask the validator of the whole task."""

    io: ClassVar[bool] = True
    attempt: int


@dataclass(frozen=True, slots=True)
class AskModel(Command):
    """Ask the model: to ``act``, or for a ``statement`` of where it is after a recovery."""

    io: ClassVar[bool] = True
    purpose: str
    not_before_us: int = 0
    tokens_estimate: int = 0


@dataclass(frozen=True, slots=True)
class RunCall(Command):
    """Carry out a tool call (or take its result, when it ran while no harness looked)."""

    io: ClassVar[bool] = True
    call_id: str
    tool: str
    effect: str
    tries: int = 0
    not_before_us: int = 0


@dataclass(frozen=True, slots=True)
class AnswerCall(Command):
    """Give a call its one result without running it."""

    call_id: str
    tool: str
    ok: bool
    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class VerifyEffect(Command):
    """Find out whether a pending effect happened, before anything else is done about it."""

    io: ClassVar[bool] = True
    call_id: str
    tool: str
    key: str


@dataclass(frozen=True, slots=True)
class AskPerson(Command):
    """Put a question before a person and wait."""

    question: str
    kind: str
    call_id: str = ""
    key: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProvisionSandbox(Command):
    """Get a fresh sandbox."""

    io: ClassVar[bool] = True
    generation: int


@dataclass(frozen=True, slots=True)
class AttachSandbox(Command):
    """Take up the sandbox of the incarnation before."""

    io: ClassVar[bool] = True
    sandbox_id: str


@dataclass(frozen=True, slots=True)
class FillWorkspace(Command):
    """Put the newest snapshot (or the task's files) in place and run recorded commands again."""

    io: ClassVar[bool] = True
    snapshot: str
    rerun: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteCheckpoint(Command):
    """Write a checkpoint, with a workspace snapshot when the workspace changed."""

    io: ClassVar[bool] = True
    reason: str
    label: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Restore(Command):
    """Go back to a checkpoint by appending: what came after it is superseded."""

    io: ClassVar[bool] = True
    checkpoint_seq: int
    request_id: str = ""
    reason: str = "by hand"


@dataclass(frozen=True, slots=True)
class Compact(Command):
    """Make scratch fit into ``room`` tokens by the strategies that the task names."""

    room: int
    strategy: str = ""
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True, slots=True)
class RecordVerdict(Command):
    """Write down what the guard found; a nudge is told to the model with the next request."""

    rule: str
    action: str


@dataclass(frozen=True, slots=True)
class BreakRounds(Command):
    """A step has used up its rounds: ``recover`` from before the repetition, once; then ``pause`` or ``stop``."""

    io: ClassVar[bool] = True
    step_id: str
    rounds: int
    cap: int
    action: str


@dataclass(frozen=True, slots=True)
class StartRecovery(Command):
    """First step of a recovery: say what was loaded and what is planned."""

    cause: str
    plan: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RebuildContext(Command):
    """Second step: goal, confirmed facts, next action; not the whole history."""


@dataclass(frozen=True, slots=True)
class FinishVerification(Command):
    """Third step is over: every pending effect has been looked at."""

    open: int = 0


@dataclass(frozen=True, slots=True)
class CheckStatement(Command):
    """Fourth step: compare the model's statement with the log, by rule."""

    statement: str


@dataclass(frozen=True, slots=True)
class CompleteRecovery(Command):
    """The session goes on."""

    skipped_statement: bool = False


Described = Mapping[str, Any]
