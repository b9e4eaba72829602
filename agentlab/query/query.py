"""Queries over all sessions of a lab: DuckDB in memory over the files that the lab holds at this moment."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentlab.errors import LogCorrupt, UserError
from agentlab.events.codec import COLUMNS, decode
from agentlab.ports import LogStore
from agentlab.query.damage import DamagedFile, warn_of
from agentlab.query.files import Lister, Listing
from agentlab.query.frame import cast, columns_frame, to_pandas
from agentlab.query.sql import MACROS, VIEW_SQL
from agentlab.query.views import VIEWS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_TRIES = 8
_ROWS = "_rows"
_MARKS = "_superseded"
_SQL_TYPES = {"text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "time": "TIMESTAMPTZ"}
_DAMAGE = re.compile(r"parquet|zstd|snappy|decompress|thrift|deserializ|corrupt|protocol|page header", re.IGNORECASE)


class Query:
    """SQL over the sessions of a store, up to the newest commit of each; running sessions are part of it.

    Rows are read as they stand; whether they match their hashes is for :meth:`agentlab.lab.Session.verify` to say.
    Safe to use from several threads: every call has a cursor and views of its own. A session with a file that can not be
    read is left out with a warning (:class:`agentlab.query.DamagedSession`), and :attr:`damaged` names it; only where
    nothing else is to be read, it is an error.

    Args:
        store: where the logs are.
        sessions: ids to read; all with None.
    """

    def __init__(self, store: LogStore, sessions: Sequence[str] | None = None) -> None:
        self.store = store
        self.sessions = None if sessions is None else tuple(dict.fromkeys(sessions))
        self._lister = Lister(store)
        self._lock = threading.Lock()
        self._connection: Any = None
        self._restored: dict[str, tuple[tuple[str, int, int], ...]] = {}
        self._generation = 0
        self.damaged: Mapping[str, str] = {}
        """Sessions that the newest answer does without because they are damaged, and why."""

    def sql(self, text: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> pd.DataFrame:
        """The answer as a data frame: times in UTC, text as ``string``, integers as ``Int64``, truth as ``boolean``.

        ``text`` is DuckDB's SQL over the views that :meth:`views` lists; ``params`` fill ``?`` or ``$name``.

        Raises:
            UserError: the SQL can not be answered.
            LogCorrupt: a file can not be read, and there is no other session; the message names it.
        """
        return to_pandas(self.arrow(text, params))

    def arrow(
        self, text: str, params: Sequence[Any] | Mapping[str, Any] | None = None, *, quiet: bool = False
    ) -> pa.Table:
        """The answer as an Arrow table; see :meth:`sql`. ``quiet``: no warning of damaged sessions."""
        import duckdb

        if not isinstance(text, str):
            raise UserError(f"a query is a text in SQL, not {text!r}")
        if isinstance(params, str | bytes):
            raise UserError(f"params is a list or a mapping of values: [{params!r}], not {params!r}")
        attempt = 0
        while attempt < _TRIES:
            files: tuple[str, ...] = ()
            try:
                with self._lock:
                    listing = self._lister.listing(self.sessions)
                files = listing.files
                table = self._answer(listing, text, params)
                self.damaged = listing.damaged
                if not quiet:
                    warn_of(listing.damaged)
                return table
            except FileNotFoundError:
                if attempt == _TRIES - 1:
                    raise
            except duckdb.Error as error:
                try:
                    self._explain(error, files, last=attempt == _TRIES - 1)
                except DamagedFile as damage:
                    with self._lock:
                        if not self._lister.leave_out(damage.path, damage.reason):
                            raise LogCorrupt(damage.reason) from error
                    continue  # without it; each time there is one session less
            attempt += 1
            with self._lock:
                self._lister.forget()
        raise AssertionError("unreachable")

    def view(self, name: str, where: str = "", params: Sequence[Any] | None = None, *, quiet: bool = False) -> pa.Table:
        """A whole view as an Arrow table with its fixed columns and types, in its order; ``where`` filters rows.

        Raises:
            UnknownName: no such view.
        """
        view = VIEWS.get(name)
        if view is None:
            from agentlab.errors import UnknownName

            raise UnknownName("view", name, VIEWS)
        condition = f" WHERE {where}" if where else ""
        return cast(self.arrow(f"SELECT * FROM {name}{condition} ORDER BY {view.order}", params, quiet=quiet), view)

    def views(self) -> pd.DataFrame:
        """Every view column by column: view, column, type, meaning."""
        return columns_frame(VIEWS.values())

    # --- answering -------------------------------------------------------------------------------------------------

    def _connect(self) -> Any:
        with self._lock:
            if self._connection is None:
                import duckdb

                # Nothing is fetched from anywhere, and a misspelt view is an error, not a variable of ours.
                self._connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"})
                self._connection.execute("SET GLOBAL python_enable_replacements = false")
                self._connection.execute("SET GLOBAL parquet_metadata_cache = true")
                self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
                for macro in MACROS:
                    self._connection.execute(macro)
            return self._connection.cursor()

    def _answer(self, listing: Listing, text: str, params: Sequence[Any] | Mapping[str, Any] | None) -> pa.Table:
        cursor = self._connect()
        try:
            cursor.execute("SET TimeZone = 'UTC'")
            self._base(cursor, listing)
            for name in _needed(text):
                if name == "events":
                    self._supersede(cursor, listing)
                cursor.execute(f"CREATE TEMP VIEW {name} AS {VIEW_SQL[name]}")
            relation = cursor.sql(text, params=params) if params is not None else cursor.sql(text)
            if relation is None:
                import pyarrow as pa

                return pa.table({})
            table: pa.Table = relation.to_arrow_table()
            return table
        finally:
            cursor.close()

    def _base(self, cursor: Any, listing: Listing) -> None:
        names = ", ".join(column.name for column in COLUMNS)
        parts = []
        if listing.files:
            parts.append(f"SELECT {names} FROM {_read(listing.files)}")
        if listing.tables:
            import pyarrow as pa

            cursor.register("_loose", pa.concat_tables(listing.tables))
            parts.append(f"SELECT {names} FROM _loose")
        if not parts:
            nulls = ", ".join(f"NULL::{_SQL_TYPES[column.kind]} AS {column.name}" for column in COLUMNS)
            parts.append(f"SELECT {nulls} WHERE false")
        cursor.execute(f"CREATE TEMP VIEW {_ROWS} AS {' UNION ALL '.join(parts)}")

    def _supersede(self, cursor: Any, listing: Listing) -> None:
        """Ranges of superseded events as a table; files never change, so each is searched once."""
        if listing.generation != self._generation:
            self._restored, self._generation = {}, listing.generation
        fresh = [path for path in listing.files if path not in self._restored]
        cursor.execute(f"CREATE TEMP TABLE {_MARKS} (session_id VARCHAR, first BIGINT, last BIGINT)")
        if fresh:
            cursor.execute(
                "SELECT filename, session_id, _int(payload, '$.superseded_from'), _int(payload, '$.superseded_to')"
                f" FROM {_read(fresh, ', filename = true')} WHERE type = 'restored_to'"
            )
            found: dict[str, list[tuple[str, int, int]]] = {path: [] for path in fresh}
            for path, *mark in cursor.fetchall():
                found[path].append(tuple(mark))
            self._restored.update({path: tuple(marks) for path, marks in found.items()})
        marks = [mark for path in listing.files for mark in self._restored[path]] + list(listing.marks)
        if marks:
            cursor.executemany(f"INSERT INTO {_MARKS} VALUES (?, ?, ?)", marks)

    def _explain(self, error: Exception, files: Sequence[str], last: bool) -> None:
        """Return when the query may be tried again; else raise what a reader can act on, or the file that is damaged."""
        import duckdb

        words = str(error)
        wrong_sql = isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException)
        if not wrong_sql:
            named = [path for path in files if path in words]
            if not named and _DAMAGE.search(words):
                named = list(files)
            for path in named:
                try:
                    decode(path)
                except FileNotFoundError:
                    if not last:
                        return
                except LogCorrupt as damage:
                    raise DamagedFile(path, str(damage)) from error
            if len(named) == 1:
                raise DamagedFile(named[0], f"{named[0]}: DuckDB can not read it ({words.splitlines()[0]})") from error
        if isinstance(error, duckdb.CatalogException) and "Table with name" in words:
            words = f"{words.splitlines()[0]} The views are {', '.join(VIEWS)}."
        raise UserError(f"the query can not be answered: {words}") from error


def _read(paths: Sequence[str], options: str = "") -> str:
    quoted = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{quoted}], hive_partitioning = false{options})"


def _needed(text: str) -> list[str]:
    """Views that ``text`` may name, with those they rest on, in order of creation: making all costs time."""
    words = set(re.findall(r"\w+", text.lower()))
    wanted = {name for name in VIEW_SQL if name in words}
    while True:
        more = {
            other
            for name in wanted
            for other in VIEW_SQL
            if other not in wanted and re.search(rf"\b(?:FROM|JOIN) {other}\b", VIEW_SQL[name])
        }
        if not more:
            return [name for name in VIEW_SQL if name in wanted]
        wanted |= more
