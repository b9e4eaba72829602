"""The clock of a simulated run: time passes where a harness spends it, and a crash strikes wherever it stands by then.

Latencies are the seconds before an event, by its kind and what it is about (a tool, a step, a purpose). Before a port
is used the time of the event that will tell of it passes; every other event takes its own time when it is staged.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from agentlab.clock import ManualClock
from agentlab.comparing.latencies import Key, Latencies, marked, size_class
from agentlab.crashpoints import SimulatedDeath
from agentlab.errors import SandboxGone
from agentlab.ports import Snapshot
from agentlab.session import commands as c
from agentlab.session.commands import Command

ANSWERS = frozenset(
    {"model_response", "model_error", "tool_result", "tool_error", "effect_completed", "effect_failed", "effect_verified",
     "step_validated", "task_validated", "execution_rerun"}
)  # fmt: skip
"""Events that tell what a call of a model, a tool or a validator gave: their time passed while it was made."""
PLACES = frozenset({"snapshot_taken", "sandbox_ready", "sandbox_attached", "sandbox_lost", "sandbox_restored"})
"""Events that tell what was done to a sandbox."""


class CrashClock(ManualClock):
    """A clock turned by hand that kills whoever lets it pass the next crash time (microseconds since the start)."""

    def __init__(self, crashes: Iterator[float]) -> None:
        super().__init__()
        self._crashes = crashes
        self.start_us = self._wall
        self.next_us = self.start_us
        self.survived: Callable[[], None] | None = None
        """What a crash does that the harness survives; without it each kills the harness."""
        self.draw()

    def draw(self) -> None:
        """Take the next crash time."""
        after = next(self._crashes, None)
        self.next_us = -1 if after is None else self.start_us + round(after * 1e6)

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            SimulatedDeath: a crash strikes before it has; the clock stands at that moment.
        """
        then = self._wall + round(seconds * 1e6)
        while 0 <= self.next_us <= then:
            self._mono += max(0, self.next_us - self._wall) / 1e6
            self._wall = max(self._wall, self.next_us)
            if self.survived is None:
                raise SimulatedDeath(f"at {(self._wall - self.start_us) / 1e6:.6f} s")
            self.survived()
            self.draw()
        seconds = (then - self._wall) / 1e6
        self._wall = then
        self._mono += seconds


class Timing:
    """What the time of a run is spent on. Draws of one kind come in the same order for each policy of a seed."""

    def __init__(self, clock: CrashClock, latencies: Latencies, seed: int) -> None:
        self.clock, self._latencies, self._seed = clock, latencies, seed
        self._streams: dict[Key, random.Random] = {}
        self._finishes: dict[tuple[str, str], int] = {}
        self._key: Key = ("", "")
        self._paid: set[str] = set()
        self._before = ""
        self._seen: set[str] = set()
        self._checkpoints = False

    def woken(self) -> None:
        """A new process begins: everything is the first of its kind again."""
        self._seen.clear()
        self._before = ""

    def draw(self, key: Key) -> float:
        """Seconds that the next event of this kind takes."""
        key = marked(key, self._seen, self._before)
        self._seen.add(key[0])
        self._before = ""
        measured = self._latencies.of(key)
        if len(measured) == 1:
            return measured[0]
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = random.Random(f"{self._seed} {key}")
        return measured[int(stream.random() * len(measured))]

    def begin(self, command: Command) -> None:
        """A command is about to be done."""
        self._key = _told_by(command)
        self._checkpoints = isinstance(command, c.WriteCheckpoint)
        self._paid.clear()

    def around(self, kind: str, work: Any, *args: Any) -> Any:
        """Use a port; the moment at which it does its work lies anywhere in the time that it takes.

        ``kind`` is the event that will tell of it; without one, what the command in progress is about.
        """
        self._paid.add(kind or "answer")
        seconds = self.draw((kind, "") if kind else self._key)
        before = seconds * random.Random(f"{self._seed} {self.clock.now_us()}").random()
        self.clock.advance(before)
        done = work(*args)
        self.clock.advance(seconds - before)
        return done

    def snapshot(self, new_bytes: int, work: Callable[[], Snapshot]) -> Snapshot:
        """Take a snapshot of a workspace: how long that takes depends on how much is new, and it is there when all of it is."""
        self._paid.add("snapshot_taken")
        self.clock.advance(self.draw(("snapshot_taken", size_class(new_bytes))))
        return work()

    @property
    def writes_checkpoint(self) -> bool:
        """Whether a checkpoint is being written whose time has not passed yet."""
        return self._checkpoints and "checkpoint_written" not in self._paid

    def execution(
        self, sandbox_id: str, exec_id: str, work: Any, alive: Callable[[], bool], key: Key | None = None
    ) -> tuple[Any, float]:
        """A command in a sandbox, which goes on while no harness looks; its result and the seconds it took.

        Raises:
            SandboxGone: the sandbox died meanwhile.
        """
        self._paid.add("answer")
        started = self.clock.now_us()
        name = (sandbox_id, exec_id)
        done = work()
        if name not in self._finishes:
            self._finishes[name] = started + round(self.draw(key or self._key) * 1e6)
        self.clock.advance(max(0, self._finishes[name] - started) / 1e6)
        if not alive():
            raise SandboxGone(f"sandbox {sandbox_id} died while {exec_id} ran")
        return done, (self._finishes[name] - started) / 1e6

    def staged(self, kind: str, about: str) -> None:
        """An event is about to be staged."""
        if not self._is_paid(kind):
            self.clock.advance(self.draw((kind, about)))
        self._seen.add(kind)
        self._before = kind if kind == "checkpoint_written" else self._before

    def _is_paid(self, kind: str) -> bool:
        if kind == "sandbox_lost" and self._paid & PLACES:
            return True
        return kind in self._paid or (kind in ANSWERS and "answer" in self._paid)


def _told_by(command: Command) -> Key:
    """The event that will tell of a command's use of a port."""
    if isinstance(command, c.AskModel):
        return ("model_response", command.purpose)
    if isinstance(command, c.RunCall):
        return ("effect_completed" if command.effect == "external" else "tool_result", command.tool)
    if isinstance(command, c.VerifyEffect):
        return ("effect_verified", command.tool)
    if isinstance(command, c.ValidateStep):
        return ("step_validated", command.step_id)
    return ("task_validated" if isinstance(command, c.ValidateTask) else "", "")
