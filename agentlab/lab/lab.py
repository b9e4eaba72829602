"""The lab: a folder where sessions live, and the verbs that begin or find them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlab.clock import Clock, SystemClock
from agentlab.errors import AgentlabError, BadLab, refusal
from agentlab.faults import Fault, Faults
from agentlab.ids import Ids, RandomIds
from agentlab.lab.accepting import accept
from agentlab.lab.faulting import arm, schedule_of
from agentlab.lab.pool import LabPool
from agentlab.lab.queue import LabQueue
from agentlab.lab.sealing import seal_sessions
from agentlab.lab.session import Session
from agentlab.lab.status import Status, damaged
from agentlab.log.store import ParquetStore
from agentlab.supervisor.client import Supervisor, supervisor
from agentlab.supervisor.ps import Owned, owned, reap

if TYPE_CHECKING:
    import pandas as pd

    from agentlab.authoring import Task
    from agentlab.query import Query

DEFAULT = Path("lab")


class Lab:
    """A folder of sessions.

    Opening, listing and reading a lab never runs anything from it, whoever made it. ``max_sessions`` is how many of
    its sessions run at once; the rest wait in a queue. It is kept in the lab, for every process that uses it.

    Raises:
        BadLab: the path is a file, can not be written, or the disk is full.
        BadDefinition: ``max_sessions`` is no number from 1 on.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = DEFAULT,
        *,
        max_sessions: int | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        try:
            self.path = Path(path).expanduser().absolute()
        except (OSError, RuntimeError) as error:
            raise BadLab(
                f"{path} can not be found from here ({error}): go to a folder that exists, or name a whole path"
            ) from None
        try:
            os.lstat(self.path)
        except OSError:
            pass  # not there yet, or not to be seen: whoever reads or writes says so
        except ValueError as error:
            raise BadLab(f"{str(path)!r} can not be a lab: {refusal(error)}; name another path") from None
        self.clock = clock or SystemClock()
        self.ids = ids or RandomIds()
        if self.path.exists() and not self.path.is_dir():
            raise BadLab(f"{self.path} is a file; a lab is a folder: name another path")
        self.store = ParquetStore(self.path)
        self._supervisor: Supervisor | None = None
        self._query: Query | None = None
        self._sessions: dict[str, Session] = {}
        self.queue = LabQueue(self)
        self.pool = LabPool(self)
        if max_sessions is not None:
            self.queue.limit(max_sessions)

    @property
    def supervisor(self) -> Supervisor:
        """The owner's end of the keeper, started when the first harness is."""
        if self._supervisor is None:
            self._supervisor = supervisor(self.path)
        return self._supervisor

    def create(
        self,
        task: str | Task,
        *,
        session_id: str | None = None,
        model: Any = None,
        crash: Sequence[str | Fault] = (),
        faults: Sequence[Any] | Faults = (),
        seed: int | None = None,
        **overrides: Any,
    ) -> Session:
        """Accept a task: it is in the log before any work on it begins. Nothing runs yet.

        ``crash`` and ``faults`` (both mean the same) are faults in words (``harness@tool_result``, ``model:529*3``; those
        separated by commas strike one after the other), a :class:`~agentlab.faults.Faults`, failure processes or
        data; ``overrides`` replace fields of the task (``policy``, ``limits``, ``params``, ``scheme``, ``strategy``,
        ``durability``, ``goal`` …).

        Raises:
            UnknownName: no such task, model, policy or crash point.
            BadDefinition, NotPortable: the task can not be run as declared.
            BadSessionId, UserError: the id can not be used, or exists.
            StorageFailed: the lab could not take it.
        """
        schedule = schedule_of(crash, faults, seed)
        log, _ = accept(self, task, session_id, model, overrides)
        session = Session(self, log)
        self._sessions[log.session_id] = session
        arm(session, schedule)
        return session

    def run(
        self, task: str | Task, *, background: bool = False, timeout_s: float | None = None, **options: Any
    ) -> Session:
        """Create a session and drive it until it rests; with ``background`` return at once.

        Options are those of :meth:`create`. Harness and sandbox end with this process; the session goes on with
        :meth:`Session.wake`.
        """
        session = self.create(task, **options)
        session.start()
        if not background:
            session.wait(timeout_s)
        return session

    def session(self, session_id: str) -> Session:
        """An existing session.

        Raises:
            UnknownName: no such session (near matches in the message).
        """
        found = self._sessions.get(session_id)
        if found is None:
            found = Session(self, self.store.open(session_id))
            self._sessions[session_id] = found
        return found

    def sessions(self) -> list[Session]:
        """All sessions, sorted by id."""
        return [self.session(session_id) for session_id in self.store.sessions()]

    def statuses(self) -> list[Status]:
        """The status of every session, sorted by id; one that can not be read says so and hides no other."""
        found = []
        for session_id in self.store.sessions():
            try:
                found.append(self.session(session_id).status())
            except AgentlabError as error:
                found.append(damaged(session_id, str(error)))
        return found

    @property
    def query(self) -> Query:
        """SQL over all sessions; ``lab.query.views()`` says what can be asked."""
        if self._query is None:
            from agentlab.query import Query

            self._query = Query(self.store)
        return self._query

    def sql(self, text: str, params: Any = None) -> pd.DataFrame:
        """The answer of :meth:`agentlab.query.Query.sql` over this lab."""
        return self.query.sql(text, params)

    def seal(self) -> int:
        """Merge the small files of every session that has ended; returns how many files were merged.

        A harness does it when its session ends; this finishes what a death or a full disk kept it from. Safe beside
        anything else that reads or writes the lab, and at every crash point; a session that can not be read is passed
        over, :meth:`Session.verify` says what is wrong with it.
        """
        return seal_sessions(self.store)

    def processes(self) -> list[Owned]:
        """The processes on record for this lab, oldest first, dead ones too: keepers, harnesses, sandboxes, tool hosts."""
        return owned(self.path)

    def reap(self, *, orphans_only: bool = False) -> list[Owned]:
        """SIGKILL processes of this lab whose owner is gone, start time checked; those that were killed.

        ``orphans_only`` spares those whose keeper lives: it is ending them, with grace. Sessions can be woken.
        """
        return reap(self.path, orphans_only=orphans_only)

    def close(self) -> None:
        """End every harness and sandbox that this process started. Sessions stay and can be woken."""
        if self._supervisor is not None:
            self._supervisor.close()
            self._supervisor = None

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lab({os.path.relpath(self.path)!r})"
