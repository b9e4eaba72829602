"""Reading one session for a panel: its digest, its state and its next command, as of the newest look."""

from __future__ import annotations

from agentlab.definition import Definition
from agentlab.lab import Session
from agentlab.lab.reader import Reader
from agentlab.lab.status import as_woken, never_accepted, status_of
from agentlab.notebook.panel.allowed import AT_WORK, Moment
from agentlab.notebook.panel.digest import Digest
from agentlab.session.commands import Rest
from agentlab.session.decide import Run, decide

CHUNK = 500
"""Events taken in at one look."""


class Feed:
    """A reader of its own over one session's log. Used by one thread at a time."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._log = session.lab.store.open(session.id)
        self._reader = self._opened()
        self._aside: Reader | None = None
        self.digest = Digest()
        self._planned: tuple[int, str, str] = (-1, "", "")
        self._definition: tuple[int, Definition] | None = None
        self.moment = self._moment(self._reader)

    def look(self) -> bool:
        """Take in what has landed since the last look; whether anything has.

        Raises:
            LogCorrupt: the log does not verify.
        """
        before = self.digest.seq
        _, fresh = self._reader.look()
        if fresh and fresh[0].seq == before + 1:
            self.digest.take(fresh)
        now = self._moment(self._reader)
        seq = self.digest.seq
        # The reader begins at a checkpoint, or has looked once more; the digest has to know all.
        if seq < now.state.seq:
            self.digest.take(self._log.replay(seq + 1, min(seq + CHUNK, now.state.seq)))
        changed = self.digest.seq != before or now.word != self.moment.word
        self.moment = now
        return changed

    @property
    def behind(self) -> bool:
        """Whether there is more of the log to be read: a long one is read in pieces, and shown meanwhile."""
        return self.digest.seq < self.moment.state.seq

    def afresh(self) -> Moment:
        """How it is at this moment, read aside; for one other thread than the one that looks.

        Raises:
            LogCorrupt: the log does not verify.
        """
        if self._aside is None:
            self._aside = self._opened()
        return self._moment(self._aside)

    def _opened(self) -> Reader:
        store = self.session.lab.store
        return Reader(store.open(self.session.id), store.blobs)

    def _moment(self, reader: Reader) -> Moment:
        state, alive = reader.standing()
        status = status_of(state, alive) if state.seq else never_accepted(self.session.id)
        return Moment(state, status, self.session.lab.supervisor.alive(self.session.id))

    @property
    def definition(self) -> Definition:
        """What the session runs; looked up anew after each wake, which may have changed the model."""
        incarnation = self.moment.state.incarnation
        if self._definition is None or self._definition[0] != incarnation:
            self._definition = (incarnation, Session(self.session.lab, self._log).definition)
        return self._definition[1]

    def next_command(self) -> str:
        """The next command of a session that rests, in a line; empty while it runs and after its end."""
        state, word = self.moment.state, self.moment.word
        if word in AT_WORK or not state.seq:
            return ""
        if self._planned[:2] != (state.seq, word):
            command = decide(as_woken(state, self.session.lab.clock.now_us()), Run.of(self.definition))
            self._planned = (state.seq, word, "" if isinstance(command, Rest) else command.describe())
        return self._planned[2]
