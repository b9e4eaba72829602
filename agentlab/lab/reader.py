"""Following a session's log: the folded state as of the last look, one cheap probe per look."""

from __future__ import annotations

from collections.abc import Sequence

from agentlab import process
from agentlab.events import Event
from agentlab.harness.wake import load
from agentlab.ports import Blobs, Log
from agentlab.session.fold import fold_all
from agentlab.session.state import State


class Reader:
    """Keeps a session's folded state up to date. Reading never writes and never deletes."""

    def __init__(self, log: Log, blobs: Blobs) -> None:
        self._log, self._blobs = log, blobs
        self._state: State | None = None

    def look(self) -> tuple[State, Sequence[Event]]:
        """The state now, and the events that are new since the last look (all after the checkpoint at first).

        Raises:
            LogCorrupt: the log does not verify.
        """
        if self._state is None:
            loaded = load(self._log, self._blobs)
            self._state = loaded.state
            return loaded.state, loaded.tail
        fresh = self._log.poll(self._state.seq)
        if fresh:
            self._state = fold_all(self._state, fresh)
        return self._state, fresh

    @property
    def state(self) -> State:
        """The state now."""
        return self.look()[0]

    def standing(self) -> tuple[State, process.Liveness]:
        """The state now, and whether the harness that it names last is alive.

        A harness writes its last words and leaves at once. So the log is read again after one was found dead: a state
        that comes with ``dead`` holds all that it has written, and one that ended is not taken for one that crashed.
        """
        state = self.state
        while True:
            alive = process.liveness(state.process)
            if alive != "dead":
                return state, alive
            again = self.state
            if again.seq == state.seq:
                return state, alive
            state = again
