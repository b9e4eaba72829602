"""Fault injection from the panel: what, when, and what exactly it is about to strike."""

from __future__ import annotations

import signal
from collections.abc import Callable
from html import escape
from typing import Any

from agentlab import process
from agentlab.crashpoints import CrashPoint
from agentlab.errors import UserError
from agentlab.events import Draft
from agentlab.faults.spec import parse_faults
from agentlab.lab import Session
from agentlab.notebook.panel.allowed import Moment, alive, why_not
from agentlab.notebook.panel.controls import Say
from agentlab.notebook.panel.deeds import Deeds
from agentlab.notebook.panel.feed import Feed
from agentlab.notebook.panel.targets import record_of, target_words

PROCESS_FAULTS = {
    "kill harness": ("kill", "harness"), "stop harness": ("stop", "harness"), "continue harness": ("cont", "harness"),
    "kill sandbox and its folder": ("kill", "sandbox"), "kill sandbox, keep folder": ("kill", "sandbox-process"),
    "stop sandbox": ("stop", "sandbox"), "continue sandbox": ("cont", "sandbox"),
}  # fmt: skip
"""Faults that strike a process: (action, target)."""
WHEN = ("now", "at a crash point", "at a plan step", "at an event", "after seconds")
POINTS = ("tool_result", "model_response", "effect.send", "effect.reply", "checkpoint_written")
"""Crash points that come first in the list: the boundaries that teach most."""


class Injecting:
    """The form. The line above the button says what will be struck; nothing else is."""

    def __init__(self, widgets: Any, feed: Feed, deeds: Deeds, say: Say, soon: Callable[[], None]) -> None:
        self._feed, self._deeds, self._say, self._soon = feed, deeds, say, soon
        points = [*POINTS, *(p.value for p in CrashPoint if p.value not in POINTS)]
        self.what = widgets.Dropdown(options=list(PROCESS_FAULTS), tooltip="what is to fail")
        self.when = widgets.Dropdown(options=list(WHEN), tooltip="when it is to fail")
        self.point = widgets.Combobox(options=points, value=points[0], placeholder="crash point", ensure_option=False)
        self.number = widgets.Text(value="2", tooltip="number of the step or event, or seconds")
        self.number.add_class("al-small")
        self.button = widgets.Button(description="⚡ inject")
        self.button.add_class("al-strike")
        self._preview = widgets.HTML()
        form = widgets.HBox([self.what, self.when, self.point, self.number, self.button])
        form.add_class("al-form")
        self.box = widgets.VBox([form, self._preview])
        for field in (self.what, self.when, self.point, self.number):
            field.observe(lambda _: self.show(feed.moment), names="value")
        self.button.on_click(self._pressed)
        self.show(feed.moment)

    def show(self, now: Moment) -> None:
        """Say what is about to be struck; hide what is not asked for."""
        for field, shown in (
            (self.point, self.when.value == WHEN[1]),
            (self.number, self.when.value in WHEN[2:]),
        ):
            display = "" if shown else "none"
            if field.layout.display != display:
                field.layout.display = display
        words = f"<div class='al-warn'>{escape(self._words(now))}</div>"
        if self._preview.value != words:
            self._preview.value = words

    def spec(self) -> str:
        """The fault in words, as ``--crash`` takes them."""
        action, target = PROCESS_FAULTS[self.what.value]
        prefix = "" if action == "kill" else f"{action}:"
        number = self.number.value.strip()
        where = {
            WHEN[1]: self.point.value.strip(), WHEN[2]: f"step={number}", WHEN[3]: f"seq={number}", WHEN[4]: f"after={number}s",
        }[self.when.value]  # fmt: skip
        return f"{prefix}{target}@{where}"

    def _words(self, now: Moment) -> str:
        action, target = PROCESS_FAULTS[self.what.value]
        if self.when.value == WHEN[0]:
            sig = {"kill": "SIGKILL", "stop": "SIGSTOP", "cont": "SIGCONT"}[action]
            what = (
                {"sandbox": " and everything below it; its folder is deleted"}.get(target, "")
                if action == "kill"
                else ""
            )
            return f"{sig} to {target_words(now, target)}{what}. Nothing else is touched."
        if action == "cont":
            return "what is stopped can be continued now only"
        return f"arms {self.spec()}: it strikes once, the {target} of this session only, whichever process that is then"

    def why_not(self, now: Moment) -> str:
        """Why the fault can not be injected now; empty when it can."""
        action, target = PROCESS_FAULTS[self.what.value]
        if self.when.value == WHEN[0]:
            return alive(record_of(now, target), target.partition("-")[0], now)
        if action == "cont":
            return "what is stopped can be continued now only: choose when = now"
        return why_not("checkpoint", now)

    def _pressed(self, _: Any) -> None:
        why = self.why_not(self._feed.moment)
        if why:
            self._say(f"inject: {why}", True)
            return
        action, target = PROCESS_FAULTS[self.what.value]
        now = self.when.value == WHEN[0]
        work = striking(action, target) if now else arming(self.spec())
        self._say(f"{self.what.value} …", False)

        def said(result: Any, complaint: str) -> None:
            self._say(f"inject: {complaint or result}", bool(complaint))
            self._soon()

        self._deeds.do(work, said)


def striking(action: str, target: str) -> Callable[[Session], str]:
    """Strike a process of the session now, after checking that it is the one on record."""

    def work(session: Session) -> str:
        if action == "kill":
            return f"SIGKILL to {session.kill(target)}, start time checked"
        state = session.state
        record = dict(state.process if target == "harness" else state.sandbox.record)
        if not _signalled(action, target, record):
            raise UserError(f"the {target} is not alive: {session.status()}")
        mark = {"id": session.lab.ids.new("i"), "fault": "by hand", "target": target, "action": action}
        session.add_input(Draft("fault_injected", mark))
        return (
            f"{'SIGSTOP' if action == 'stop' else 'SIGCONT'} to the {target}, pid {record['pid']}, start time checked"
        )

    return work


def _signalled(action: str, target: str, record: dict[str, Any]) -> bool:
    from agentlab.sandbox.killing import continue_sandbox, stop_sandbox

    if target == "harness":
        return process.send_signal(record, signal.SIGSTOP if action == "stop" else signal.SIGCONT)
    return stop_sandbox(record) if action == "stop" else continue_sandbox(record)


def arming(spec: str) -> Callable[[Session], str]:
    """Arm a fault for later."""

    def work(session: Session) -> str:
        inject = getattr(session, "inject", None)
        if inject is not None:
            inject(spec)
            return f"armed {spec}"
        faults = parse_faults(spec, session.lab.ids.new("f"))
        payload = {"id": session.lab.ids.new("a"), "schedule": [fault.to_json() for fault in faults], "seed": None}
        session.add_input(Draft("fault_armed", payload))
        return f"armed {spec}; a harness that runs already takes it up at its next wake"

    return work
