"""What a person should see at once: a budget that runs low, a guard that found a repetition. A line each, until it is over."""

from __future__ import annotations

from html import escape

from agentlab.budget.dimensions import shown
from agentlab.events import Event

SHOWN = 4
_OVER = {"nudge": "the model was told", "pause": "it pauses", "stop": "it stops", "recover": "it goes back to before"}


class Alerts:
    """The alerts in force, at most one for each limit and one of the guard. Taken in as events land."""

    def __init__(self) -> None:
        self._standing: dict[str, tuple[int, str]] = {}

    def take(self, event: Event) -> None:
        """Take one event in."""
        p = event.payload
        if event.type == "budget_alert":
            name, used, limit = str(p["dimension"]), int(p["used"]), int(p["limit"])
            share = f" ({100 * used / limit:.0f} %)" if limit else ""
            words = f"budget: {shown(name, used)} of {shown(name, limit)} {name} used{share}"
            self._standing[f"budget {name}"] = (event.seq, words)
        elif event.type == "budget_refused":
            name = str(p["dimension"])
            self._standing[f"budget {name}"] = (event.seq, f"budget: no {name} left for what comes next")
        elif event.type == "budget_extended":
            self._standing.pop(f"budget {p['dimension']}", None)
        elif event.type == "guard_verdict":
            found = len(p["evidence"])
            words = f"guard: {p['rule']} repeats ({found} events prove it); {_OVER.get(p['action'], p['action'])}"
            self._standing["guard"] = (event.seq, words)
        elif event.type in ("step_completed", "session_ended"):
            self._standing.pop("guard", None)

    def lines(self) -> list[str]:
        """The alerts in force, newest first, each with the event that it comes from."""
        newest = sorted(self._standing.values(), reverse=True)
        return [f"{words}; event {seq}" for seq, words in newest[:SHOWN]]


def alerts_html(alerts: Alerts) -> str:
    """The alerts as HTML, empty when there is none."""
    return "".join(f"<div class='al-alert' role='alert'>! {escape(line)}</div>" for line in alerts.lines())
