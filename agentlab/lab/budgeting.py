"""A session's budget as its owner sees it: read it, extend it, be told when a threshold is passed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentlab.budget.dimensions import TOKENS, amount_of, dimension_named
from agentlab.budget.report import BudgetReport, report
from agentlab.errors import BadDefinition, Conflict, UserError
from agentlab.events import Draft
from agentlab.observe import Subscribers
from agentlab.session.recovery import done_steps
from agentlab.session.spending import wall_ms

if TYPE_CHECKING:
    from agentlab.lab.session import Session

_RACES = 20


class SessionBudget:
    """``session.budget()`` reports; its methods change the log by inputs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __call__(self) -> BudgetReport:
        """Used, reserved, at risk, left and forecast of every dimension, as of now."""
        state = self._session.state
        done, total = len(done_steps(state)), len(state.plan.steps)
        ended = state.control.status == "ended"
        return report(self._session.id, state.budget, wall_ms(state), total if ended else done, total)

    def extend(self, **more: str | int | float) -> BudgetReport:
        """Give limits more: ``extend(tokens="20k", cost=2.5, wall="30min", tool_calls=5)``; the budget after it.

        ``tokens`` means the limit of all tokens where there is one, else every limit of a kind of tokens. A tool's
        calls are ``**{"tool:send": 2}``. A session that paused for its budget goes on with :meth:`Session.wake`.

        Raises:
            UnknownName, BadDefinition: no such dimension, or no amount.
            UserError: the dimension has no limit, or the session has ended.
        """
        if not more:
            raise BadDefinition("extend what? name a dimension and an amount, as in tokens=20k")
        state = self._session.state
        if state.control.status == "ended":
            raise UserError(f"session {self._session.id!r} has ended: its budget is not needed any more")
        wanted: dict[str, int] = {}
        for word, amount in more.items():
            for dimension in _limited(word, state.budget.limits):
                wanted[dimension] = amount_of(dimension, amount)
        for dimension, amount in wanted.items():
            self._add(dimension, amount)
        return self()

    def _add(self, dimension: str, amount: int) -> None:
        session = self._session
        for _ in range(_RACES):
            state = session.state
            budget, seen = state.budget, state.seq
            version = budget.versions.get(dimension, 0)
            limit = budget.limits[dimension] + amount
            extension = {"id": session.lab.ids.new("i"), "dimension": dimension, "limit": limit}
            (event,) = session.add_input(Draft("budget_extended", {**extension, "expected_version": version}))
            # Somebody else may have extended it first: then this did nothing, and is made anew of what is true now.
            if not any(
                other.type == "budget_extended"
                and (other.payload["dimension"], other.payload["expected_version"]) == (dimension, version)
                for other in session.replay(seen + 1, event.seq - 1)
            ):
                return
        raise Conflict(session.id, session.state.seq)

    def known(self, reservation: str, **amounts: int) -> BudgetReport:
        """Say what a model call that was cut really cost (the provider's own account knows); the budget after it.

        ``reservation`` is the request's id as ``model_request`` has it; it counts until then as *at risk*.

        Raises:
            UserError: nothing of that name is at risk.
        """
        at_risk = self._session.state.budget.at_risk
        if reservation not in at_risk:
            raise UserError(f"nothing called {reservation!r} is at risk; known: {', '.join(at_risk) or 'nothing'}")
        exact = {dimension_named(word): int(amount) for word, amount in amounts.items()}
        payload = {"id": self._session.lab.ids.new("i"), "reservation": reservation, "amounts": exact}
        self._session.add_input(Draft("usage_reported", payload))
        return self()

    def on_alert(self, callback: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
        """Call back for every alert from now on (dimension, used, limit, threshold), on a daemon thread of its own.

        A callback that raises is dropped and never felt by the run. The result unsubscribes; the end of the session
        does too.
        """
        session = self._session
        subscribers: Subscribers[Mapping[str, Any]] = Subscribers()
        subscribers.add(callback)
        over = threading.Event()
        log = session.lab.store.open(session.id)
        begin = log.head().seq + 1

        def watch() -> None:
            for event in log.follow(begin, over.is_set):
                if event.type == "budget_alert":
                    subscribers.tell(event.payload)
                elif event.type == "session_ended":
                    over.set()

        threading.Thread(target=watch, name=f"agentlab-alerts-{session.id}", daemon=True).start()
        return over.set


def _limited(word: str, limits: Mapping[str, int]) -> list[str]:
    dimension = dimension_named(word, limits)
    found = [dimension] if dimension in limits else []
    if not found and dimension == "tokens":
        found = [name for name in TOKENS if name in limits]
    if not found:
        known = ", ".join(limits) or "none"
        raise UserError(f"{dimension} has no limit, so there is nothing to extend; limited: {known}")
    return found
