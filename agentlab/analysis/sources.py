"""What the functions of this package take: a session, several, a whole lab, or a choice of a lab's sessions by SQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from agentlab.errors import UserError
from agentlab.log import ParquetStore
from agentlab.query import Query
from agentlab.query.damage import warn_of

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_LAB = "lab"

Source = Any
"""A ``Session``; an iterable of them (of one lab); a ``Lab`` (or its store, or a ``Query``); a text: an SQL condition
over the columns of the view ``sessions``, like ``"task = 'report' AND crashes > 0"``, or the id of a session, of the lab
that ``lab`` says, else of the one in hand; or an :class:`Analysed` that was made before."""

_in_hand: Callable[[], Any] | None = None


def lab_in_hand(found: Callable[[], Any] | None) -> None:
    """Say which lab a condition means that comes without one; a notebook does. Without it, it is ``./lab``."""
    global _in_hand
    _in_hand = found


Frame = Any
"""A ``pandas.DataFrame``; the stubs of pandas know less of columns than this package does."""


class Analysed:
    """A choice of sessions, resolved once: what frames, plots and diagnosis read. Made by :func:`analysed`."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._tables: dict[tuple[str, str], pa.Table] = {}
        self._told: set[str] = set()

    def table(self, view: str, where: str = "") -> pa.Table:
        """A view as an Arrow table; read once."""
        key = (view, where)
        if key not in self._tables:
            self._tables[key] = self.query.view(view, where, quiet=True)
            self._tell()
        return self._tables[key]

    def frame(self, view: str, where: str = "") -> Frame:
        """A view as a data frame; see :mod:`agentlab.analysis.frames`."""
        from agentlab.query.frame import to_pandas

        return to_pandas(self.table(view, where))

    def sql(self, text: str) -> Frame:
        """Any question over these sessions."""
        from agentlab.query.frame import to_pandas

        found = to_pandas(self.query.arrow(text, quiet=True))
        self._tell()
        return found

    def _tell(self) -> None:
        """Warn of each damaged session once, however many views are read."""
        fresh = {name: reason for name, reason in self.query.damaged.items() if name not in self._told}
        self._told |= set(fresh)
        warn_of(fresh)


def analysed(x: Source, lab: Any = None) -> Analysed:
    """``x`` as sessions to read.

    Raises:
        UserError: it is nothing that can be read, or a condition without a lab, or sessions of several labs.
    """
    if isinstance(x, Analysed):
        return x
    if isinstance(x, Query):
        return Analysed(x)
    if isinstance(x, str):
        return Analysed(_chosen(x, lab))
    if _is_session(x):
        return Analysed(Query(_store_of(x), [x.id]))
    if hasattr(x, "store"):  # a lab; its own query remembers the files it has seen
        found = getattr(x, "query", None)
        return Analysed(found if isinstance(found, Query) else Query(x.store))
    if hasattr(x, "sessions") and hasattr(x, "open"):  # a store
        return Analysed(Query(x))
    if isinstance(x, Iterable):
        return Analysed(_several(list(x), lab))
    raise UserError(f"{x!r} is no session, lab or choice of sessions: pass one of these")


def _chosen(condition: str, lab: Any) -> Query:
    if lab is None:
        lab = _in_hand() if _in_hand is not None else ParquetStore(DEFAULT_LAB)
        place = str(getattr(lab, "path", DEFAULT_LAB))
        if not os.path.isdir(place):
            raise UserError(f"{condition!r} chooses sessions of a lab, and there is none at {place}: pass lab= as well")
    store = getattr(lab, "store", lab)
    if condition in store.sessions():
        return Query(store, [condition])
    found = Query(store).sql(f"SELECT session_id FROM sessions WHERE {condition or 'true'} ORDER BY session_id")
    return _restricted(store, found.session_id)


def _restricted(store: Any, shown: Iterable[str]) -> Query:
    from agentlab.events import readable

    wanted = set(shown)
    return Query(store, [session_id for session_id in store.sessions() if readable(session_id) in wanted])


def _several(items: list[Any], lab: Any) -> Query:
    if not items:
        if lab is None:
            raise UserError("no session given: pass at least one, or lab= to say whose sessions")
        return Query(getattr(lab, "store", lab), [])
    if not all(_is_session(item) for item in items):
        raise UserError("pass sessions, like [lab.session('a'), lab.session('b')]")
    places = {str(getattr(_store_of(item), "lab", id(_store_of(item)))) for item in items}
    if len(places) > 1:
        raise UserError("these sessions are of several labs: analyse one lab at a time")
    return Query(_store_of(items[0]), [item.id for item in items])


def _is_session(x: Any) -> bool:
    return hasattr(x, "id") and hasattr(x, "lab")


def _store_of(session: Any) -> Any:
    return session.lab.store
