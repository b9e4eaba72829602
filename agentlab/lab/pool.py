"""The budget that the sessions of a lab share, as its owner sees it: limits for all together, who has what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agentlab.budget.dimensions import amount_of, dimension_named, shown
from agentlab.budget.state import BudgetState
from agentlab.errors import AgentlabError, BadDefinition, UserError
from agentlab.events import Draft
from agentlab.harness.pooling import unused
from agentlab.pool.budget import reclaims
from agentlab.pool.state import Account, PoolState

if TYPE_CHECKING:
    from agentlab.lab.lab import Lab

HEADS = ("dimension", "used", "set aside", "left", "limit")


@dataclass(frozen=True, slots=True)
class PoolRow:
    """One shared dimension: ``used`` by all sessions up to their newest commit, ``set_aside`` for what sessions that have
    not ended do next, what is ``left``."""

    dimension: str
    used: int
    set_aside: int
    left: int
    limit: int


@dataclass(frozen=True, slots=True)
class PoolReport:
    """The shared budget; ``accounts`` is what each session that has not ended used and has set aside, per dimension;
    ``quotas`` are sends per minute."""

    rows: tuple[PoolRow, ...]
    accounts: Mapping[str, Mapping[str, int]]
    quotas: Mapping[str, int]

    def row(self, dimension: str) -> PoolRow:
        """The row of a dimension; KeyError when it is not limited."""
        for row in self.rows:
            if row.dimension == dimension:
                return row
        raise KeyError(dimension)

    def table(self) -> list[tuple[str, ...]]:
        """The rows as texts, in the order of :data:`HEADS`."""
        return [
            (r.dimension, *(shown(r.dimension, n) for n in (r.used, r.set_aside, r.left, r.limit))) for r in self.rows
        ]

    def remarks(self) -> list[str]:
        """What is used by and set aside for whom, in sentences."""
        return [
            f"{session_id}: " + ", ".join(f"{shown(name, n)} {name}" for name, n in taken.items())
            for session_id, taken in self.accounts.items()
        ] + [f"{key}: at most {quota} a minute, by all sessions together" for key, quota in self.quotas.items()]

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "accounts": {k: dict(v) for k, v in self.accounts.items()},
            "quotas": dict(self.quotas),
        }

    def __str__(self) -> str:
        if not self.rows and not self.quotas:
            return "the sessions of this lab share no budget"
        rows = [HEADS, *self.table()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
        lines = ["  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join(["shared budget of the lab", *lines, *self.remarks()])


class LabPool:
    """``lab.pool()`` reports; its methods change the pool's log. A session draws on it from its next wake on."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def __call__(self) -> PoolReport:
        """Used, set aside and left of every shared dimension, as of now."""
        journal = self._lab.queue.folder.journal()
        state = PoolState() if journal is None else journal.look()
        settled = [(account, self._settled(session_id)) for session_id, account in state.accounts.items()]
        rows = []
        for name, limit in state.limits.items():
            used = state.spent.get(name, 0) + sum(_used(account, of, name) for account, of in settled)
            rows.append(PoolRow(name, used, state.taken(name) - used, state.left(name), limit))
        accounts = {
            session_id: {name: account.taken(name) for name in state.limits}
            for session_id, account in state.accounts.items()
        }
        return PoolReport(tuple(rows), accounts, state.quotas)

    def _settled(self, session_id: str) -> BudgetState:
        """What a session's own log says that it spent; nothing where it can not be read."""
        try:
            return self._lab.session(session_id).state.budget
        except AgentlabError:
            return BudgetState()

    def limit(self, **limits: str | int | float | None) -> PoolReport:
        """Set limits for all sessions together: ``limit(tokens="1M", cost=5)``; None or ``"none"`` takes one away.

        Raises:
            UnknownName, BadDefinition: no such dimension, or no amount, or one that can not be shared.
            BadLab, StorageFailed: the lab can not take it.
        """
        for word, amount in limits.items():
            dimension = _shared(word)
            self._set(dimension, None if amount is None or _none(amount) else amount_of(dimension, amount), more=False)
        return self()

    def extend(self, **more: str | int | float) -> PoolReport:
        """Give shared limits more; sessions that paused for the pool go on with their wake.

        Raises:
            UnknownName, BadDefinition: no such dimension, or no amount.
            UserError: the dimension is not shared.
        """
        for word, amount in more.items():
            dimension = _shared(word)
            self._set(dimension, amount_of(dimension, amount), more=True)
        return self()

    def quota(self, **per_minute: str | int | None) -> PoolReport:
        """Sends per minute of all sessions together: ``quota(requests=50, crm=30)``; None or ``"none"`` takes one
        away.

        ``requests`` are model requests; other names are tools, or services that a task names in ``budget["services"]``.

        Raises:
            BadDefinition: no whole number from 1 on.
            BadLab, StorageFailed: the lab can not take it.
        """
        for key, given in per_minute.items():
            number = None if given is None or _none(given) else amount_of("sends per minute", given)
            self._set_quota(key, number)
        return self()

    def _set_quota(self, key: str, number: int | None) -> None:
        def sets(state: PoolState) -> Sequence[Draft]:
            if state.quotas.get(key) == number:
                return ()
            return (Draft("pool_quota", {"id": self._lab.ids.new("p"), "key": key, "per_minute": number}),)

        self._lab.queue.folder.made().change(sets)

    def reclaim(self) -> PoolReport:
        """Take back what sessions have that ended, or whose owner is dead beyond doubt, beyond what they spent.

        A session that needs more than there is does the same by itself.
        """
        journal = self._lab.queue.folder.journal()
        if journal is not None:
            judge = unused(self._lab.store, self._lab.clock)
            journal.change(lambda state: reclaims(state, "", judge, self._lab.ids))
        return self()

    def _set(self, dimension: str, amount: int | None, *, more: bool) -> None:
        def sets(state: PoolState) -> Sequence[Draft]:
            limit = amount
            if more:
                if dimension not in state.limits:
                    known = ", ".join(state.limits) or "nothing"
                    raise UserError(f"the lab's sessions share no limit of {dimension}; shared: {known}")
                limit = state.limits[dimension] + (amount or 0)
            if state.limits.get(dimension) == limit:
                return ()
            version = state.versions.get(dimension, 0)
            payload = {
                "id": self._lab.ids.new("p"),
                "dimension": dimension,
                "limit": limit,
                "expected_version": version,
            }
            return (Draft("pool_extended", payload),)

        folder = self._lab.queue.folder
        if amount is None and folder.journal() is None:
            return
        folder.made().change(sets)

    def __repr__(self) -> str:
        return f"LabPool({', '.join(f'{row.dimension}={row.limit}' for row in self().rows)})"


def _none(amount: str | int | float) -> bool:
    return isinstance(amount, str) and amount.strip().lower() == "none"


def _used(account: Account, budget: BudgetState, dimension: str) -> int:
    """What of an account is spent for good; the newest commit may already be ahead of the pool."""
    return min(account.taken(dimension), max(0, budget.used_of(dimension) - account.brought.get(dimension, 0)))


def _shared(word: str) -> str:
    dimension = dimension_named(word)
    if dimension == "wall_ms":
        raise BadDefinition("wall time passes for every session by itself: limit it in the task, it can not be shared")
    return dimension
