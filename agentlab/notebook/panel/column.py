"""One session in a panel: head, controls, timeline and the sections below them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from agentlab.lab import Session
from agentlab.notebook.panel.allowed import AT_WORK, Moment
from agentlab.notebook.panel.asking import Asking
from agentlab.notebook.panel.budgeting import Budgeting
from agentlab.notebook.panel.checkpoints import Checkpoints
from agentlab.notebook.panel.controls import Control, SaidLine, checkpoint, go, killing, one_step, pause
from agentlab.notebook.panel.deeds import Deeds, own
from agentlab.notebook.panel.feed import Feed
from agentlab.notebook.panel.header import header_html
from agentlab.notebook.panel.injecting import Injecting
from agentlab.notebook.panel.judging import Judge
from agentlab.notebook.panel.loglines import LogLines
from agentlab.notebook.panel.plots import Plots
from agentlab.notebook.panel.recoveries import recoveries_html
from agentlab.notebook.panel.targets import target_words
from agentlab.notebook.panel.threads import Answering
from agentlab.notebook.panel.timeline import Timeline

SECTIONS = ("checkpoints", "recovery", "inject", "budget", "plots", "log")
LOGGER = logging.getLogger("agentlab.panel")


class Column:
    """The widgets of one session. :meth:`beat` brings them up to date; it runs on the panel's thread."""

    def __init__(self, widgets: Any, session: Session, soon: Callable[[], None]) -> None:
        self.feed = Feed(session)
        self._slow = Deeds(own(session), f"agentlab-slow-{session.id}")
        self._quick = Deeds(own(session), f"agentlab-quick-{session.id}")
        self._soon = soon
        self._broken: set[str] = set()
        self._driven = False
        self.said = SaidLine(widgets)
        self._head = widgets.HTML()
        self.timeline = Timeline(widgets)
        judge = self._judge = Judge(self.feed, self._quick, self.said, soon)
        self.controls = self._controls(widgets)
        self.asking = Asking(widgets, judge, self._slow, self.said, soon)
        self._recovery = widgets.HTML()
        self.checkpoints = Checkpoints(widgets, self.feed, judge, self._slow, self.said, soon)
        self.injecting = Injecting(widgets, self.feed, judge, self._quick, self.said, soon)
        self.budgeting = Budgeting(widgets, judge, self._quick, self.said, soon)
        self.plots = Plots(widgets, own(session))
        self.log = LogLines(widgets, self.feed.digest)
        self.sections = {
            "checkpoints": self.checkpoints.box, "recovery": self._recovery, "inject": self.injecting.box,
            "budget": self.budgeting.box, "plots": self.plots.box, "log": self.log.box,
        }  # fmt: skip
        self.tabs = {name: widgets.ToggleButton(description=name, value=name == SECTIONS[0]) for name in SECTIONS}
        for name, tab in self.tabs.items():
            tab.observe(lambda change, name=name: self._open(name, bool(change["new"])), names="value")
            self.sections[name].layout.display = "" if tab.value else "none"
        self.box = widgets.VBox(self._parts(widgets))
        self.box.add_class("al-column")
        self._answering = Answering(self.box)

    def _parts(self, widgets: Any) -> list[Any]:
        gap = widgets.HTML()
        gap.add_class("al-gap")
        buttons = [control.button for control in self.controls.values()]
        row = widgets.HBox([*buttons[:4], gap, *buttons[4:]])
        row.add_class("al-buttons")
        tabs = widgets.HBox(list(self.tabs.values()))
        tabs.add_class("al-tabs")
        return [self._head, row, self.said.box, self.asking.box, self.timeline.box, tabs, *self.sections.values()]

    def _controls(self, widgets: Any) -> dict[str, Control]:
        def made(
            words: str, action: str, deeds: Deeds, work: Any, help: str, style: str = "", about: Any = None
        ) -> Control:
            return Control(
                widgets,
                words,
                action,
                deeds,
                self._judge,
                self.said,
                work,
                help=help,
                style=style,
                after=self._soon,
                about=about,
            )

        def kill(target: str, help: str) -> Control:
            """It says which process it is about to kill, before it is pressed."""
            about = partial(target_words, target=target)
            return made(f"✗ kill {target}", target, quick, killing(target), help, "al-strike", about)

        slow, quick = self._slow, self._quick
        return {
            "run": made("▶ run", "run", slow, go, "start it, or go on", "al-go"),
            "step": made("⇥ step", "step", slow, one_step, "exactly one command: the one shown as next"),
            "pause": made("‖ pause", "pause", quick, self._pause, "rest at the next safe point"),
            "wake": made("☼ wake", "wake", slow, go, "a new harness takes it up after its cursor"),
            "checkpoint": made("▣ checkpoint", "checkpoint", quick, checkpoint, "write one before the next command"),
            "kill harness": kill("harness", "SIGKILL, for real"),
            "kill sandbox": kill("sandbox", "SIGKILL, and its folder is deleted"),
        }

    def _pause(self, session: Session) -> str:
        """What was pressed before the pause and has not begun would undo it: that is taken back first."""
        self._slow.withdraw("taken back: a pause was asked before it began")
        return pause(session)

    def _open(self, name: str, on: bool) -> None:
        self.sections[name].layout.display = "" if on else "none"
        if on:
            self._soon()

    # --- the beat ----------------------------------------------------------------------------------------------------

    def beat(self) -> bool:
        """Look at the log and bring what is shown up to date; whether the session is at work."""
        self.feed.look()
        now = self.feed.moment
        self._part("head", self._show_head)
        self._part("timeline", lambda: self.timeline.show(self.feed.digest))
        self._part("controls", lambda: self._show_controls(now))
        self._part("question", lambda: self.asking.show(now))
        if self.tabs["checkpoints"].value:
            self._part("checkpoints", self.checkpoints.show)
        if self.tabs["recovery"].value:
            self._part("recovery", self._show_recovery)
        if self.tabs["inject"].value:
            self._part("inject", lambda: self.injecting.show(now))
        if self.tabs["budget"].value:
            self._part("budget", lambda: self.budgeting.show(now))
        if self.tabs["log"].value:
            self._part("log", self.log.show)
        if self.tabs["plots"].value:
            self._part("plots", lambda: self.plots.want(self.feed.digest.seq))
        self._part("widgets", self._answering.answer)
        self._attend()
        return now.word in AT_WORK or self.feed.behind

    def _part(self, name: str, show: Callable[[], Any]) -> None:
        """One part of the panel; one that fails is logged once and the others go on."""
        try:
            show()
            self._broken.discard(name)
        except Exception:
            if name not in self._broken:
                self._broken.add(name)
                LOGGER.exception("the panel's %s could not be shown", name)

    def _show_controls(self, now: Moment) -> None:
        for control in self.controls.values():
            control.show(now)

    def _show_head(self) -> None:
        html = header_html(self.feed)
        if self._head.value != html:
            self._head.value = html
        for name, count in (
            ("checkpoints", self.feed.digest.checkpoints_written),
            ("recovery", self.feed.digest.watch.found),
        ):
            words = f"{name} {count}" if count else name
            if self.tabs[name].description != words:
                self.tabs[name].description = words

    def _show_recovery(self) -> None:
        html = recoveries_html(self.feed.digest, self.feed.moment.word)
        if self._recovery.value != html:
            self._recovery.value = html

    def _attend(self) -> None:
        """A harness that left without a word, with none to follow: let the session say in its log why."""
        now = self.feed.moment
        left = self._driven and not now.driven and now.word == "crashed"
        self._driven = now.driven
        if left:
            self._quick.do(_excuse, self._excused)

    def _excused(self, result: Any, complaint: str) -> None:
        if complaint:
            self.said(complaint, True)

    def close(self) -> None:
        """No more commands and pictures; the widgets keep what they show."""
        self._slow.close()
        self._quick.close()
        self.plots.close()


def _excuse(session: Session) -> None:
    with contextlib.suppress(TimeoutError):  # woken again meanwhile: it needs no excuse
        session.wait(0.5)
