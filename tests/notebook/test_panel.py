"""The panel without a browser: buttons are pressed in this process, sessions and their processes are real."""

from __future__ import annotations

import logging
import random
import re
import threading

import psutil
import pytest
from comm import create_comm, get_comm_manager

import agentlab as al
from agentlab import process
from agentlab.errors import UserError
from agentlab.events import Draft, Head, seal
from agentlab.faults import Faults
from agentlab.lab.status import Status
from agentlab.notebook.panel import board, plots, record
from agentlab.notebook.panel.alerts import alerts_html
from agentlab.notebook.panel.allowed import Moment, why_not
from agentlab.notebook.panel.checkpoints import comparison_html
from agentlab.notebook.panel.choices import CHOICES
from agentlab.notebook.panel.crashes import STEPS
from agentlab.notebook.panel.digest import MARKS, Digest
from agentlab.notebook.panel.injecting import WHEN
from agentlab.notebook.panel.lanes import LANES, lane_of
from agentlab.notebook.panel.recoveries import recoveries_html
from agentlab.notebook.panel.timeline import BLOCKS, blocks_html
from agentlab.session.state import State
from tests.notebook.conftest import SLOW, held_in, hold, kinds, until


@pytest.fixture
def lab(here, tmp_path):
    return here.go(tmp_path / "lab")


@pytest.fixture
def opened():
    """Open panels over sessions; they are closed at the end."""
    made = []

    def open_(*sessions):
        panel = al.panel(list(sessions))
        panel.open()
        made.append(panel)
        return panel

    yield open_
    for panel in made:
        panel.close()


@pytest.fixture
def naps(lab):
    """A session that has not begun, whose tool is defined here."""
    names: dict = {}
    exec(SLOW.replace("12", "8"), names)
    return lab.create(names["slow"], durability="process")


def press(column, name):
    """Press what the panel itself, which may be behind the log, says can act."""
    act(column, (column.controls | column.asking.controls | {"extend": column.budgeting.control})[name])


def act(column, control):
    busy = lambda: "al-busy" in control.button._dom_classes  # noqa: E731
    until(
        lambda: not busy() and not control.why_not(column.feed.moment),
        seen=lambda: (control.words, busy(), control.why_not(column.feed.moment)),
    )
    control.button.click()


def refused(column, name, words):
    """Press what the panel says can not act, for a reason with these words, which it gives."""
    control = (column.controls | column.asking.controls)[name]
    until(lambda: "al-busy" not in control.button._dom_classes and words in control.why_not(column.feed.moment))
    control.button.click()
    says(column, words)


def says(column, words, seconds=120.0):
    until(lambda: words in column.said.box.value, seconds, lambda: f"{words!r}, it says {column.said.box.value}")


def state(column, word, seconds=120.0):
    def seen():
        session = column.session
        return f"{word}: {column.feed.moment}, said {column.said.box.value}, {session.status()}, {kinds(session)[-8:]}"

    until(lambda: column.feed.moment.word == word, seconds, seen)


# --- driving -----------------------------------------------------------------------------------------------------------


def test_run_kill_and_wake_by_pressing(naps, opened):
    held = hold(3)
    column = opened(naps).columns[0]
    assert column.feed.moment.word == "new" and "StartAttempt" in column._head.value
    press(column, "run")
    held_in(naps, 3)
    refused(column, "run", "it is running: nothing to start")
    record = dict(naps.state.process)
    assert psutil.pid_exists(record["pid"])
    until(lambda: f"pid {record['pid']}, started" in column.controls["kill harness"].button.tooltip)
    assert "start time matches" in column.controls["kill harness"].button.tooltip
    press(column, "kill harness")
    says(column, f"(pid {record['pid']}), start time checked")
    assert process.liveness(record) == "dead"
    state(column, "crashed")
    refused(column, "kill harness", "is dead already")
    held.unlink()
    press(column, "wake")
    state(column, "completed")
    (crash,) = column.feed.digest.crashes
    assert crash.over and crash.target == "harness" and crash.cause == "kill by hand"
    assert tuple(crash.steps) == STEPS
    refused(column, "wake", "it has ended (completed)")
    assert kinds(naps).count("harness_woken") == 2


def test_step_does_the_command_that_was_shown(naps, opened):
    column = opened(naps).columns[0]

    def following(shown):
        """The command that is shown as next, once it is another one."""
        found = re.search(r"<span>next</span><code>(\w+)\(", column._head.value)
        return found[1] if found and found[1] != shown else ""

    shown = ""
    for _ in range(3):
        shown = until(lambda shown=shown: following(shown))
        seq = naps.state.seq
        press(column, "step")
        says(column, f"did {shown}(")
        until(lambda seq=seq: column.feed.digest.seq > seq and column.feed.moment.word == "paused")
    refused(column, "pause", "it is not running (paused)")


def test_a_press_is_judged_by_how_it_is_and_not_by_how_it_was_seen(naps, opened):
    """The panel stands still at its first look, as between two of its updates; the session does not."""
    held = hold(3)
    panel = opened(naps)
    (column,) = panel.columns
    panel.pulse.close()
    until(lambda: not panel.pulse.thread.alive)
    naps.start()
    held_in(naps, 3)
    assert column.controls["kill harness"].why_not(column.feed.moment) == "it has no harness yet"
    column.controls["kill harness"].button.click()
    says(column, "start time checked")
    assert naps.status().status == "crashed"
    column.controls["kill harness"].button.click()
    says(column, "is dead already; the session is crashed")  # the reason of now, not that of the old look
    assert column.controls["wake"].why_not(column.feed.moment) == "it has not begun: run it"
    column.controls["wake"].button.click()
    says(column, "woken")
    column.controls["wake"].button.click()
    says(column, "nothing to wake")
    until(lambda: kinds(naps).count("harness_woken") == 2)
    column.injecting.what.value = "kill harness"
    column.injecting.button.click()
    says(column, "start time checked")
    held.unlink()
    until(lambda: not naps.lab.supervisor.alive(naps.id))
    column.controls["wake"].button.click()
    says(column, "woken")
    until(lambda: naps.status().status == "completed")
    assert kinds(naps).count("harness_woken") == 3


def test_pause_does_not_wait_for_a_long_step(lab, opened):
    names: dict = {}
    exec(SLOW, names)
    hold(0)
    session = lab.create(names["slow"])
    column = opened(session).columns[0]
    press(column, "run")
    held_in(session, 0)
    press(column, "pause")
    says(column, "asked; it rests at the next safe point")
    assert "pause_requested" in kinds(session)
    press(column, "kill harness")
    state(column, "paused")


def test_approval_and_denial(lab, opened):
    @al.tool(effect="pure", needs_approval=True)
    def press_it() -> str:
        """Press it."""
        return "pressed"

    def model(view):
        return al.say("done") if view.calls("press_it") else al.call("press_it")

    session = lab.create(al.Task(name="button", goal="Press it.", tools=[press_it], model=model))
    column = opened(session).columns[0]
    assert column.asking.box.layout.display == "none"
    press(column, "run")
    state(column, "waiting")
    until(lambda: column.asking.box.layout.display == "" and "press_it" in column.asking._question.value)
    offered = lambda: {name for name, c in column.asking.controls.items() if c.button.layout.display != "none"}  # noqa: E731
    until(lambda: offered() == {"approve", "deny"}, seen=offered)
    refused(column, "wake", "answer its question first")
    press(column, "approve")
    state(column, "completed")
    assert "approval_given" in kinds(session)
    until(lambda: column.asking.box.layout.display == "none")


def test_a_limit_is_extended(lab, opened):
    names: dict = {}
    exec(SLOW, names)
    session = lab.create(names["slow"], limits={"tool_calls": 2})
    column = opened(session).columns[0]
    column.tabs["budget"].value = True
    press(column, "run")
    state(column, "paused")
    until(lambda: "2 of 2 (100 %)" in column.budgeting._bars.value)
    column.budgeting.control.button.click()
    says(column, "write the new limit")
    column.budgeting.dimension.value = "tool_calls"
    column.budgeting.limit.value = "20"
    press(column, "extend")
    says(column, "tool_calls may now reach 20")
    until(lambda: "2 of 20" in column.budgeting._bars.value)
    press(column, "run")
    state(column, "completed")


# --- checkpoints -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The built-in task with two deaths in it, paused in its last step, which has nobody to notify."""
    with al.Lab(tmp_path_factory.mktemp("finished") / "lab") as lab:
        yield lab.run("sales_report", crash=["harness@tool_result", "sandbox@step=4"], params={"receiver_url": ""})


def test_checkpoints_are_rows_and_can_be_compared(finished, opened):
    column = opened(finished).columns[0]
    rows = [row for row in column.checkpoints._rows if row.box.layout.display == "flex"]
    written = [e for e in finished.events() if e.type == "checkpoint_written"]
    assert [row._row.seq for row in rows] == [e.seq for e in written][::-1][: len(rows)] and len(rows) >= 3
    for _ in range(len(written)):
        column.checkpoints._older.click()
    last = [row for row in column.checkpoints._rows if row.box.layout.display == "flex"][-1]
    assert last._row.seq == written[0].seq and "milestone" in last._cells.value and "files" in last._cells.value
    for _ in range(len(written)):
        column.checkpoints._newer.click()
    column.checkpoints._compare.click()
    assert "tick two rows first" in column.said.box.value
    for row in rows[:3]:
        row._tick.value = True
    assert [row._tick.value for row in rows[:3]] == [False, True, True]  # the newest two ticks count
    column.checkpoints._compare.click()
    until(lambda: "<table>" in column.checkpoints._found.value)
    assert "plan.completed" in comparison_html(finished, written[0].seq, written[2].seq)


def test_restore_and_fork_from_a_row(finished, opened):
    column = opened(finished).columns[0]
    rows = [row for row in column.checkpoints._rows if row._row is not None]
    rows[-1]._fork.click()
    says(column, "new session sales_report-1")
    (forked,) = [s for s in finished.lab.sessions() if s.id != finished.id]
    assert forked.state.plan.completed >= 1 and forked.status().resumable
    rows[-1]._restore.click()
    says(column, "superseded")
    assert "restore_requested" in kinds(finished)
    assert finished.state.plan.completed >= 1


# --- faults ------------------------------------------------------------------------------------------------------------


def test_it_says_what_it_is_about_to_strike(naps, opened):
    held = hold(2)
    column = opened(naps).columns[0]
    injecting = column.injecting
    column.tabs["inject"].value = True
    assert "no harness yet" in injecting._preview.value
    press(column, "run")
    until(lambda: f"pid {naps.state.process.get('pid')}, started" in injecting._preview.value)
    assert "start time matches" in injecting._preview.value and "SIGKILL to harness" in injecting._preview.value
    injecting.what.value = "stop harness"
    assert "SIGSTOP" in injecting._preview.value
    injecting.button.click()
    says(column, "SIGSTOP to the harness")
    pid = naps.state.process["pid"]
    until(lambda: process.stopped(pid))
    until(lambda: "stopped" in injecting._preview.value)
    injecting.what.value = "continue harness"
    injecting.button.click()
    says(column, "SIGCONT to the harness")
    until(lambda: not process.stopped(pid))
    held.unlink()
    state(column, "completed")


def test_a_fault_is_armed_for_a_crash_point(naps, opened):
    column = opened(naps).columns[0]
    injecting = column.injecting
    injecting.what.value, injecting.when.value = "kill harness", WHEN[1]
    assert injecting.point.layout.display == "" and injecting.number.layout.display == "none"
    injecting.point.value = "tool_reslut"
    injecting.button.click()
    says(column, "did you mean tool_result")
    injecting.point.value = "tool_result"
    assert "arms harness@tool_result" in injecting._preview.value
    injecting.button.click()
    says(column, "armed harness@tool_result")
    press(column, "run")
    state(column, "completed")
    (crash,) = column.feed.digest.crashes
    assert crash.cause == "harness@tool_result" and crash.over


@pytest.mark.parametrize("when", WHEN[1:])
def test_faults_in_words(naps, opened, when):
    """Whatever is chosen, what is armed reads back as the fault that was described."""
    column = opened(naps).columns[0]
    injecting = column.injecting
    injecting.when.value, injecting.number.value = when, "3"
    for what, choice in CHOICES.items():
        injecting.what.value = what
        if choice.action == "cont":
            assert "now only" in injecting.why_not(column.feed.moment)
            continue
        assert injecting.why_not(column.feed.moment) == ""
        assert Faults([injecting.spec()], 1).words(), what
        if choice.group == "process":
            assert al.parse_fault(injecting.spec(), "f").spec() == injecting.spec()
        assert "arms" in injecting._preview.value


def test_a_lost_reply_is_armed_in_a_running_session(naps, opened):
    held = hold(2)
    column = opened(naps).columns[0]
    press(column, "run")
    held_in(naps, 2)
    column.injecting.what.value = "tool: lost_reply"
    column.injecting.number.value = "1"
    column.injecting.button.click()
    says(column, "armed tool:lost_reply")
    held.unlink()
    state(column, "completed")
    assert kinds(naps).count("fault_injected") == 1 and kinds(naps).count("harness_woken") == 1


def test_a_seeded_schedule_needs_a_seed(naps, opened):
    column = opened(naps).columns[0]
    injecting = column.injecting
    injecting.what.value, injecting.number.value, injecting.seed.value = "random kills: poisson", "60", "x"
    injecting.button.click()
    assert "the seed is a whole number" in column.said.box.value
    injecting.seed.value = "7"
    injecting.button.click()
    says(column, "armed harness@poisson=60s with seed 7")
    assert [e.payload["seed"] for e in naps.events() if e.type == "fault_armed"] == [7]


# --- showing -----------------------------------------------------------------------------------------------------------


def many(count):
    """A long session's events, made up: turns with a tool each, a checkpoint every ten."""
    cycle = [
        Draft("model_request", {"request_id": "r", "purpose": "act", "layers": {}, "tokens_estimate": 1, "digest": "d"}),
        Draft("model_response", {"request_id": "r", "purpose": "act", "content": [], "stop_reason": "tool_use"}),
        Draft("tool_requested", {"call_id": "c", "tool": "t", "input": {"a": "x" * 300}, "effect": "pure"}, tool_name="t"),
        Draft("tool_result", {"call_id": "c", "tool": "t", "output": "y" * 3000}, tool_name="t"),
        Draft("checkpoint_written", {
            "checkpoint_id": "s@1", "schema_version": 1, "cursor": 1, "cursor_hash": "", "state": "", "reason": "every", "size_bytes": 9,
        }),
    ]  # fmt: skip
    drafts = [cycle[i % len(cycle)] for i in range(count)]
    return seal(drafts, Head(0, "0" * 64), session_id="s", incarnation=1, commit_id="c", now_us=1)


def test_ten_thousand_events_are_a_bounded_page():
    digest = Digest()
    events = many(10_000)
    digest.take(events[:1000])
    early = sum(map(len, blocks_html(digest.marks)))
    digest.take(events)
    late = blocks_html(digest.marks)
    assert digest.seq == 10_000 and sum(digest.counts.values()) == 10_000
    assert len(digest.marks) <= MARKS and sum(map(len, late)) < 1.1 * early < 250_000
    assert sum(html.count("tabindex") for html in late) <= MARKS


def test_only_the_newest_block_changes():
    digest = Digest()
    events = many(10_000)
    digest.take(events[:-1])
    before = blocks_html(digest.marks)
    digest.take(events)
    after = blocks_html(digest.marks)
    assert len(after) == BLOCKS and before[:-1] == after[:-1] and before[-1] != after[-1]


def test_a_digest_is_the_same_however_its_events_arrive(finished):
    events = finished.events()
    whole = Digest()
    whole.take(events)
    parts = Digest()
    rest = list(events)
    seed = random.randrange(10**6)
    pick = random.Random(seed)
    while rest:
        n = pick.randint(1, 7)
        parts.take(rest[:n])
        parts.take(rest[:n])  # what was taken is passed over
        rest = rest[n:]
    assert list(parts.marks) == list(whole.marks) and list(parts.checkpoints) == list(whole.checkpoints), seed
    assert list(parts.crashes) == list(whole.crashes) and parts.counts == whole.counts, seed
    assert [c.target for c in whole.crashes] == ["harness", "sandbox"]
    html = recoveries_html(whole, "paused")
    assert all(f"✓ {name}" in html for name in STEPS) and html.count("went on after") == 2


def test_an_alert_is_a_line_until_it_is_over():
    drafts = [
        Draft("budget_alert", {"dimension": "cost_microusd", "used": 8200, "limit": 10_000, "threshold": 0.8}),
        Draft("guard_verdict", {"rule": "cycle <of 2>", "evidence": [3, 5, 7], "action": "nudge"}),
        Draft("budget_alert", {"dimension": "cost_microusd", "used": 9600, "limit": 10_000, "threshold": 0.95}),
        Draft("step_completed", {"step_id": "1", "summary": ""}),
        Draft("budget_extended", {"id": "i", "dimension": "cost_microusd", "limit": 20_000, "expected_version": 0}),
    ]
    events = seal(drafts, Head(0, "0" * 64), session_id="s", incarnation=1, commit_id="c", now_us=1)
    digest = Digest()
    seen = []
    for event in events:
        digest.take([event])
        seen.append(digest.alerts.lines())
    first = "budget: $0.0082 of $0.0100 cost_microusd used (82 %); event 1"
    guard = "guard: cycle <of 2> repeats (3 events prove it); the model was told; event 2"
    last = "budget: $0.0096 of $0.0100 cost_microusd used (96 %); event 3"
    assert seen == [[first], [guard, first], [last, guard], [last], []]
    again = Digest()
    again.take(events[:2])
    assert "cycle &lt;of 2&gt;" in alerts_html(again.alerts) and alerts_html(digest.alerts) == ""


def test_lanes_have_a_sign_each_and_every_kind_a_lane():
    assert len({lane.sign for lane in LANES}) == len({lane.marker for lane in LANES}) == len(LANES)
    by_name = {lane.name: n for n, lane in enumerate(LANES)}
    assert lane_of("effect_in_doubt") == by_name["effect"] and lane_of("harness_died") == by_name["fault"]
    assert lane_of("checkpoint_written") == by_name["saved"] and lane_of("note_added") == by_name["plan"]


def test_text_of_agents_is_escaped(lab, opened):
    hostile = "<img src=x onerror=alert(1)>"
    task = al.Task(name="hostile", goal=hostile, model=lambda view: al.say("<img src=x onerror=alert(1)>"))
    session = lab.run(task)
    column = opened(session).columns[0]
    column.tabs["log"].value = True
    until(lambda: "session_ended" in column.log._lines.value)
    shown = [column._head, *column.timeline._blocks, column.log._lines]
    assert all("<img" not in widget.value for widget in shown)
    assert any("&lt;img" in widget.value for widget in shown)


def test_the_log_is_filtered(finished, opened):
    column = opened(finished).columns[0]
    column.tabs["log"].value = True
    until(lambda: "session_paused" in column.log._lines.value)
    column.log.filter.value = "recovery_step load"
    assert column.log._lines.value.count("recovery_step") == 1 and "1 of the newest" in column.log._lines.value
    column.log.filter.value = "nothing holds this"
    assert "0 of the newest" in column.log._lines.value


def test_plots_are_drawn_off_the_main_thread_and_a_broken_one_disturbs_nothing(finished, opened, monkeypatch, caplog):
    drawn = plots.draw

    def broken(name):
        if name == "loops":
            raise RuntimeError("no such colour")
        return drawn(name)

    monkeypatch.setattr(plots, "draw", broken)
    column = opened(finished).columns[0]
    empty = plots._EMPTY
    assert all(
        image.value == empty for image in column.plots.images.values()
    )  # nothing is drawn before it is looked at
    with caplog.at_level(logging.WARNING, "agentlab.panel"):
        column.tabs["plots"].value = True
        until(lambda: column.plots.images["context"].value != empty, 240)  # libraries are loaded first
    until(lambda: "no such colour" in column.plots._note.value)
    assert column.plots.images["loops"].value == empty
    assert bytes(column.plots.images["latency"].value).startswith(b"\x89PNG")
    press(column, "checkpoint")
    says(column, "asked; it is written before the next command")


def test_a_broken_part_is_logged_once_and_the_others_go_on(naps, opened, monkeypatch, caplog):
    panel = opened(naps)
    column = panel.columns[0]
    monkeypatch.setattr(column.timeline, "show", lambda digest: 1 / 0)
    with caplog.at_level(logging.ERROR, "agentlab.panel"):
        until(lambda: "ZeroDivisionError" in caplog.text)
        beats = panel.pulse.beats
        until(lambda: panel.pulse.beats > beats + 2)
    assert sum("timeline" in record.message for record in caplog.records) == 1
    press(column, "run")
    state(column, "completed")


def test_two_sessions_side_by_side_and_each_kills_its_own(lab, opened):
    names: dict = {}
    exec(SLOW, names)
    held = hold(3)
    first, second = lab.create(names["slow"]), lab.create(names["slow"])
    panel = opened(first, second)
    one, two = panel.columns
    press(one, "run")
    press(two, "run")
    held_in(first, 3)
    held_in(second, 3)
    press(two, "kill harness")
    says(two, "start time checked")
    held.unlink()
    state(one, "completed")
    assert "fault_injected" not in kinds(first) and kinds(first).count("harness_woken") == 1
    state(two, "crashed")


def test_at_most_four_updates_a_second_however_often_it_is_pressed(naps, opened):
    panel = opened(naps)
    column = panel.columns[0]
    press(column, "run")
    until(lambda: panel.pulse.soon() or column.feed.moment.word == "completed")
    until(lambda: panel.pulse.beats > 6)
    began = list(panel.pulse.began)
    assert all(later - sooner >= 1.0 for sooner, later in zip(began, began[4:], strict=False))


def test_a_panel_over_the_same_sessions_takes_the_older_ones_place(naps, opened):
    first = opened(naps)
    second = opened(naps)
    until(lambda: not first.pulse.thread.alive)
    assert second.pulse.thread.alive and repr(first) == repr(second) == f"Panel('{naps.id}')"


def test_what_can_not_be_a_panel(lab, naps):
    with pytest.raises(UserError, match="which session"):
        al.panel([])
    with pytest.raises(UserError, match="did you mean naps-1"):
        al.panel("nap-1")
    with pytest.raises(UserError, match=f"{board.SESSIONS} sessions at most"):
        al.panel([lab.create("sales_report") for _ in range(board.SESSIONS + 1)])


# --- the record --------------------------------------------------------------------------------------------------------


def outputs(monkeypatch, panel):
    """What showing the panel displays: a list of mime bundles and objects."""
    from IPython import display

    shown = []

    class Handle:
        def update(self, bundle, raw):
            shown.append(bundle)

    def take(what, **options):
        shown.append(what)
        return Handle() if options.get("display_id") else None

    monkeypatch.setattr(display, "display", take)
    panel._ipython_display_()
    return shown


def test_plain_is_a_picture_and_a_table_that_do_not_change(finished, monkeypatch):
    picture, tables = outputs(monkeypatch, al.panel(finished))
    assert picture["image/png"].startswith(b"\x89PNG") and picture["text/plain"] == f"Panel('{finished.id}')"
    assert "harness@tool_result" in tables["text/html"] and "▣" in tables["text/plain"]
    again = outputs(monkeypatch, al.panel(finished))
    assert again == [picture, tables]
    assert not re.search(r"\d (ms|s)\b|\bpid\b", tables["text/plain"])


def test_live_leaves_a_record_below_the_widgets(naps, monkeypatch):
    monkeypatch.setenv("AGENTLAB_DISPLAY", "live")
    panel = al.panel(naps)
    shown = outputs(monkeypatch, panel)
    try:
        assert shown[0] is panel.widget and "stays in the saved notebook" in shown[1]["text/html"]
        press(panel.columns[0], "run")
        until(lambda: "completed" in shown[-1]["text/plain"])
        assert "data:image/png;base64," in shown[-1]["text/html"]
        assert not re.search(r"<(style|script|svg|iframe)", shown[-1]["text/html"])
    finally:
        panel.close()


def test_a_picture_that_can_not_be_drawn_is_logged_once_and_delays_no_update(naps, monkeypatch, caplog):
    monkeypatch.setenv("AGENTLAB_DISPLAY", "live")
    drawn, go_on = [], threading.Event()

    def slow(feeds):
        drawn.append(threading.current_thread().name)
        go_on.wait(240)
        raise RuntimeError("no such font")

    monkeypatch.setattr(record, "record_png", slow)
    panel = al.panel(naps)
    with caplog.at_level(logging.WARNING, "agentlab.panel"):
        outputs(monkeypatch, panel)
        try:
            until(lambda: drawn)
            press(panel.columns[0], "run")
            state(panel.columns[0], "completed")  # the updates go on while the picture is being drawn
            go_on.set()
            until(lambda: "no such font" in caplog.text)
            until(lambda: len(drawn) > 1)
        finally:
            panel.close()
    assert set(drawn) == {"agentlab-record"}
    assert caplog.text.count("no such font") == 1
    assert panel.updates.count >= 2 and "95 % within" in str(panel.updates)


def test_a_page_that_opens_later_is_told_that_the_record_stays(naps, monkeypatch):
    monkeypatch.setenv("AGENTLAB_DISPLAY", "live")
    panel = al.panel(naps)
    outputs(monkeypatch, panel)
    try:
        assert panel._note.layout.display == "none"
        opens = get_comm_manager().targets["jupyter.widget.control"]
        opens(create_comm(target_name="jupyter.widget.control"), {"metadata": {"version": "1.0.0"}})
        assert panel._note.layout.display == "" and "open the panel again" in panel._note.value
    finally:
        panel.close()


def test_none_shows_nothing(naps, monkeypatch):
    monkeypatch.setenv("AGENTLAB_DISPLAY", "none")
    assert outputs(monkeypatch, al.panel(naps)) == []


def test_the_verb(shell, naps):
    panel = shell.run(f"%agent panel {naps.id}")
    assert repr(panel) == f"Panel('{naps.id}')"
    made = shell.run("%agent panel --task sales_report")
    assert made.sessions[0].status().status == "new" and made.sessions[0].id == "sales_report-1"
    assert "did you mean naps-1" in shell.complaint("%agent panel naps-2")
    assert repr(shell.run("%agent panel naps-1 sales_report-1")) == "Panel('naps-1', 'sales_report-1')"


def test_a_long_log_is_read_while_the_widgets_are_shown(finished, monkeypatch):
    """The cell does not wait for it; the record follows."""
    monkeypatch.setenv("AGENTLAB_DISPLAY", "live")
    monkeypatch.setattr(board, "SHORT", 3)
    panel = al.panel(finished)
    shown = outputs(monkeypatch, panel)
    try:
        assert "reading the log" in shown[1]["text/plain"]
        until(lambda: panel.columns[0].feed.digest.seq == finished.state.seq > board.SHORT)
        until(lambda: "steps done" in shown[-1]["text/plain"])
    finally:
        panel.close()


def test_a_log_that_can_not_be_read_says_so_and_hides_no_other(naps, finished, opened, monkeypatch):
    panel = opened(naps, finished)
    broken, sound = panel.columns

    def torn():
        raise al.AgentlabError("row 7 does not match its hash")

    monkeypatch.setattr(broken.feed, "look", torn)
    says(broken, "its log can not be read: row 7 does not match its hash")
    sound.tabs["log"].value = True
    until(lambda: "session_paused" in sound.log._lines.value)


WHY_NOT = {
    "run": {"queued": "it is queued", "running": "it is running", "waiting": "answer its question", "completed": "fork it",
            "unknown": "last driven on host far", "new": "", "paused": "", "crashed": ""},
    "wake": {"new": "run it", "running": "it is running", "failed": "fork it", "paused": "", "crashed": ""},
    "step": {"running": "pause it first", "recovering": "pause it first", "paused": "", "new": ""},
    "pause": {"queued": "", "running": "", "recovering": "", "paused": "nothing to pause", "completed": "nothing to pause"},
    "harness": {"new": "it has no harness yet"},
    "sandbox": {"new": "it has no sandbox yet"},
    "answer": {"running": "it asks nothing now", "waiting": ""},
    "extend": {"paused": "no limit is set", "completed": "it has ended"},
    "restore": {"completed": "it has ended", "running": "", "paused": ""},
    "fork": {"completed": "", "running": ""},
}  # fmt: skip


@pytest.mark.parametrize("action", sorted(WHY_NOT))
def test_a_control_that_can_not_act_says_why(action):
    for word, why in WHY_NOT[action].items():
        status = Status("s", word, "last driven on host far", None, 0, 0, 1, 0, 0, False)
        found = why_not(action, Moment(State(), status, driven=word in ("queued", "running")))
        assert (why in found) if why else found == "", (word, found)
