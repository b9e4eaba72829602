"""A session as it is waited for: until it rests, with what is happening meanwhile told; a harness that vanished is said."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentlab.errors import UserError
from agentlab.events import Draft, Event
from agentlab.harness.redact import Redactor
from agentlab.lab.awaiting import Waiting, awaited
from agentlab.lab.inputs import append_input
from agentlab.lab.recorded import RecordedSession
from agentlab.log.paths import folder_name
from agentlab.session.state import State

RESTING = ("paused", "waiting", "ended")
POLL_S = 0.02


class AwaitedSession(RecordedSession):
    """One session of a lab, to be read, waited for and paused."""

    def wait(self, timeout_s: float | None = None, on_events: Callable[[Sequence[Event]], None] | None = None) -> Any:
        """Wait until the session rests and its harness has left; its :class:`Status`.

        A plain call blocks, in short waits, so that an interrupt works. Directly under ``await``, as in
        ``await session.wait()``, the kernel stays free meanwhile: widgets act, where the kernel serves them during an
        awaiting cell (ipykernel 7.4 and later; in JupyterLab from 7.0.2 on).

        Raises:
            TimeoutError: it does not rest within ``timeout_s`` seconds; it goes on in the background.
        """
        if awaited(sys._getframe(1)):
            return Waiting(self, timeout_s, on_events)
        self._await(self._rests, timeout_s, on_events)
        return self.status()

    def _rests(self, state: State) -> bool:
        if state.control.status in RESTING:
            lingering = state.control.status == "paused" and state.control.reason == "step"
            return lingering or not self.lab.supervisor.alive(self.id)
        return False

    def _await(
        self,
        done: Callable[[State], bool],
        timeout_s: float | None,
        on_events: Callable[[Sequence[Event]], None] | None = None,
    ) -> None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            state, fresh = self._reader.look()
            if fresh and on_events is not None:
                on_events(fresh)
            if done(state):
                return
            if not self.lab.supervisor.alive(self.id):
                state, fresh = self._reader.look()
                if fresh and on_events is not None:
                    on_events(fresh)
                if done(state):
                    return
                self._gone()
                return
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(
                    f"session {self.id!r} does not rest within {timeout_s} s; it goes on in the background"
                )
            time.sleep(POLL_S)

    def _gone(self) -> None:
        """The keeper gave up on this session: say so in the log, as an input, so that the next wake begins clean."""
        state = self.state
        if state.control.status in RESTING or state.control.pause_id:
            return
        exit_ = self.lab.supervisor.wait_exit(self.id, timeout=1.0)
        if exit_ is not None and exit_.crash_loop:
            why = self._said()
            payload = {"id": self.lab.ids.new("i"), "reason": "crash_loop", "mode": "now", "detail": why[:500]}
            self.add_input(Draft("pause_requested", payload))
        elif exit_ is not None and exit_.code not in (0, None):
            raise UserError(f"the harness of {self.id!r} did not start: {self._said()}")

    def _said(self) -> str:
        try:
            lines = self._output.read_text(errors="replace").strip().splitlines()
        except OSError:
            return "it left no word"
        return lines[-1].removeprefix("agentlab: ") if lines else "it left no word"

    def add_input(self, *drafts: Draft) -> tuple[Event, ...]:
        """Append inputs, without the secrets of this process's environment."""
        redactor = Redactor.from_environment(os.environ)
        return append_input(self.log, tuple(map(redactor.clean, drafts)), self.lab.clock, self.lab.ids)

    @property
    def _output(self) -> Path:
        """Where the harness's own words go (its standard output and error)."""
        return self.lab.path / "run" / f"{folder_name(self.id)}.log"

    def pause(self, reason: str = "by hand", *, now: bool = False) -> None:
        """Ask for a pause at the next safe point; ``now`` also cuts the command in progress."""
        mode = "now" if now else "safe"
        self.add_input(Draft("pause_requested", {"id": self.lab.ids.new("i"), "reason": reason, "mode": mode}))
        if now:
            with contextlib.suppress(UserError):
                self.lab.supervisor.stop(self.id, signal.SIGTERM)
