"""Fault injection from the panel: what, when, and what exactly it is about to strike."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from html import escape
from typing import Any

from agentlab import process
from agentlab.crashpoints import CrashPoint
from agentlab.errors import UserError
from agentlab.events import Draft
from agentlab.lab import Session
from agentlab.notebook.panel.allowed import Moment, alive, why_not
from agentlab.notebook.panel.choices import CHOICES, Choice
from agentlab.notebook.panel.deeds import Deeds
from agentlab.notebook.panel.feed import Feed
from agentlab.notebook.panel.judging import Judge, Say
from agentlab.notebook.panel.targets import record_of, target_words

NOW, POINT, STEP, EVENT, AFTER = "now", "at a crash point", "at a plan step", "at an event", "after seconds"
WHEN = (NOW, POINT, STEP, EVENT, AFTER)
POINTS = ("tool_result", "model_response", "effect.send", "effect.reply", "checkpoint_written")
"""Crash points that come first in the list: the boundaries that teach most."""
_SIGNALS = {"kill": "SIGKILL", "stop": "SIGSTOP", "cont": "SIGCONT"}


class Injecting:
    """The form. The line above the button says what will be struck; nothing else is."""

    def __init__(
        self, widgets: Any, feed: Feed, judge: Judge, deeds: Deeds, say: Say, soon: Callable[[], None]
    ) -> None:
        self._judge, self._deeds, self._say, self._soon = judge, deeds, say, soon
        self._showing = threading.RLock()
        points = [*POINTS, *(p.value for p in CrashPoint if p.value not in POINTS)]
        self.what = widgets.Dropdown(options=list(CHOICES), tooltip="what is to fail")
        self.when = widgets.Dropdown(options=list(WHEN), tooltip="when it is to fail")
        self.point = widgets.Combobox(options=points, value=points[0], placeholder="crash point", ensure_option=False)
        self.number = widgets.Text(value="2", tooltip="number of the step, event or call; or seconds")
        self.seed = widgets.Text(value="1", tooltip="seed: the same one strikes at the same times")
        for field in (self.number, self.seed):
            field.add_class("al-small")
        self.button = widgets.Button(description="⚡ inject")
        self.button.add_class("al-strike")
        self._preview = widgets.HTML()
        form = widgets.HBox([self.what, self.when, self.point, self.number, self.seed, self.button])
        form.add_class("al-form")
        self.box = widgets.VBox([form, self._preview])
        for changing in (self.what, self.when, self.point, self.number, self.seed):
            changing.observe(lambda _: self.show(feed.moment), names="value")
        self.button.on_click(self._pressed)
        self.show(feed.moment)

    @property
    def choice(self) -> Choice:
        """What is to go wrong."""
        return CHOICES[self.what.value]

    def show(self, now: Moment) -> None:
        """Say what is about to be struck; hide what is not asked for."""
        with self._showing:  # the panel's thread, and whoever changes a field, take turns
            self._show(now)

    def _show(self, now: Moment) -> None:
        group = self.choice.group
        for field, shown in (
            (self.when, group == "process"),
            (self.point, group == "second" or (group == "process" and self.when.value == POINT)),
            (self.number, group in ("service", "random") or (group == "process" and self.when.value in WHEN[2:])),
            (self.seed, group in ("random", "schedule")),
        ):
            display = "" if shown else "none"
            if field.layout.display != display:
                field.layout.display = display
        words = f"<div class='al-warn'>{escape(self._words(now))}</div>"
        if self._preview.value != words:
            self._preview.value = words

    @property
    def at_once(self) -> bool:
        """Whether it strikes now, instead of being armed."""
        return self.choice.group == "process" and self.when.value == NOW

    def spec(self) -> str:
        """The fault in words, as ``--crash`` and ``%agent inject`` take them."""
        choice, number, point = self.choice, self.number.value.strip(), self.point.value.strip()
        if choice.group == "service":
            place = _PLACES.get(choice.target, "")
            return f"{choice.target}:{choice.action}{place}" + (f"#{number}" if number not in ("", "1") else "")
        if choice.group == "second":
            return f"second:harness@{point}"
        if choice.group == "random":
            return f"harness@{choice.action}={number}s"
        if choice.group == "schedule":
            return choice.action
        prefix = "" if choice.action == "kill" else f"{choice.action}:"
        place = {POINT: point, STEP: f"step={number}", EVENT: f"seq={number}", AFTER: f"after={number}s"}[
            self.when.value
        ]
        return f"{prefix}{choice.target}@{place}"

    def _words(self, now: Moment) -> str:
        choice, number = self.choice, self.number.value.strip()
        if self.at_once:
            more = " and everything below it; its folder is deleted" if (choice.action, choice.target) == _WHOLE else ""
            return f"{_SIGNALS[choice.action]} to {target_words(now, choice.target)}{more}. Nothing else is touched."
        if choice.action == "cont":
            return "what is stopped can be continued now only"
        if choice.group == "service":
            what = {"disk": "append", "clock": "tool result"}.get(choice.target, "call")
            return (
                f"arms {self.spec()}: {choice.meaning}; once, at {what} {number or 1} from now. No process is killed."
            )
        if choice.group == "random":
            return (
                f"arms {self.spec()} with seed {self.seed.value}: {choice.meaning}, with a mean of {number} s between"
            )
        if choice.group == "schedule":
            return f"arms {choice.meaning}"
        if choice.group == "second":
            return f"arms {self.spec()}: {choice.meaning}; the log lets one of the two go on"
        return f"arms {self.spec()}: it strikes once, the {choice.target} of this session only, whichever process that is then"

    def why_not(self, now: Moment) -> str:
        """Why the fault can not be injected now; empty when it can."""
        choice = self.choice
        if self.at_once:
            return alive(record_of(now, choice.target), choice.target.partition("-")[0], now)
        if choice.action == "cont":
            return "what is stopped can be continued now only: choose when = now"
        if choice.group in ("random", "schedule") and not self.seed.value.strip().isdigit():
            return "the seed is a whole number"
        return why_not("checkpoint", now)

    def _pressed(self, _: Any) -> None:
        pressed = self._chosen()

        def act() -> None:
            if self._chosen() == pressed:
                self._act()
            else:
                self._say("inject: the form was changed meanwhile: press again", True)

        self._judge.press("inject", self.why_not, act)

    def _chosen(self) -> tuple[str, ...]:
        return tuple(field.value for field in (self.what, self.when, self.point, self.number, self.seed))

    def _act(self) -> None:
        choice = self.choice
        seed = int(self.seed.value) if choice.group in ("random", "schedule") else None
        work = striking(choice.action, choice.target) if self.at_once else arming(self.spec(), seed)
        self._say(f"{choice.words} …", False)

        def said(result: Any, complaint: str) -> None:
            self._say(f"inject: {complaint or result}", bool(complaint))
            self._soon()

        self._deeds.do(work, said)


_PLACES = {"disk": "@event.append", "clock": "@tool_result"}
_WHOLE = ("kill", "sandbox")


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
        return f"{_SIGNALS[action]} to the {target}, pid {record['pid']}, start time checked"

    return work


def _signalled(action: str, target: str, record: dict[str, Any]) -> bool:
    from agentlab.sandbox.killing import continue_sandbox, stop_sandbox

    if target == "harness":
        return process.send_signal(record, signal.SIGSTOP if action == "stop" else signal.SIGCONT)
    return stop_sandbox(record) if action == "stop" else continue_sandbox(record)


def arming(spec: str, seed: int | None) -> Callable[[Session], str]:
    """Arm a fault for later; a living harness takes it up before its next command."""

    def work(session: Session) -> str:
        session.inject([spec], seed=seed)
        return f"armed {spec}" + (f" with seed {seed}" if seed is not None else "")

    return work
