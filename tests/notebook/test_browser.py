"""In JupyterLab, in a browser: what people do with a mouse or a keyboard, on real sessions.

All tests share one JupyterLab and one browser. ``AGENTLAB_SCREENSHOTS`` names a folder for pictures, to be looked at by
a person.
"""

from __future__ import annotations

import re
import time
from importlib.util import find_spec

import nbformat
import pytest

from agentlab.events import Draft
from agentlab.lab import Lab
from agentlab.notebook.panel.digest import MARKS
from tests.notebook.conftest import hold, kinds, processes_of, until
from tests.notebook.jupyterlab import BROWSER, OPTIONS, QUICKSTART, READY, Page, jupyterlab, write_notebook

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium"),
    pytest.mark.timeout(300),
]
NOTEBOOK_7 = find_spec("notebook") is not None
BEGIN = '''
%load_ext agentlab
import time
from pathlib import Path
import agentlab as al

@al.tool(effect="sandboxed", timeout_s=900)
def work(n: int) -> str:
    """Work a while, and for as long as somebody holds it."""
    time.sleep(0.1)
    Path(f"FOLDER/at-{n}").touch()
    while Path(f"FOLDER/hold-{n}").exists():
        time.sleep(0.02)
    open(f"done-{n}", "w").close()
    return f"did {n}"

def working(view):
    n = len(view.calls("work"))
    return al.call("work", n=n) if n < COUNT else al.say("done")

job = al.Task(name="job", goal="Work.", tools=[work], model=working, policy="every=2", durability="process")
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with jupyterlab(tmp_path_factory.mktemp("jupyterlab")) as (url, root):
        yield url, root


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=OPTIONS, timeout=120_000)
        yield browser
        browser.close()


@pytest.fixture
def notebook(server, browser, request):
    """Open a notebook of these cells in a tab; its kernels end with the test, and so does everything they started."""
    url, root = server
    pages = []
    name = re.sub(r"\W+", "_", request.node.name)
    folder = root / name
    folder.mkdir()

    def open_(*cells, again=False, **how):
        if not again:
            write_notebook(folder / "n.ipynb", [cell.replace("FOLDER", str(folder)) for cell in cells])
        pages.append(Page(browser, url, f"{name}/n.ipynb", workspace=f"{name}{len(pages)}", **how))
        pages[-1].folder = folder
        return pages[-1]

    yield open_
    for page in pages:
        page.shutdown()
    until(lambda: not processes_of(folder))


def session_of(page, session_id="job-1"):
    """The session as its log on disk tells it."""
    return until(lambda: session_id in Lab(page.folder / "lab").store.sessions()) and Lab(page.folder / "lab").session(
        session_id
    )


def at_work(page, session, n):
    """Wait until the tool is at this piece of work, which is held: there it stays."""
    until((page.folder / f"at-{n}").exists, seen=lambda: (session.status(), kinds(session)[-8:]))


def each_call_once(session, count):
    """Everything was done, and every call that was made has exactly one result. (What a scripted model sees is shorter
    after a recovery: it may ask for a piece of work again, as another call.)"""
    events = session.events()
    asked = {e.call_id: e.payload["input"]["n"] for e in events if e.type == "tool_requested"}
    assert sorted(e.call_id for e in events if e.type == "tool_result") == sorted(asked)
    assert set(asked.values()) == set(range(count))
    session.verify()


def saved(page, cell, words=""):
    """Save the notebook, and wait until that cell's outputs, with these words in them, are in the file: the outputs."""

    def outputs():
        try:
            return nbformat.read(page.folder / "n.ipynb", as_version=4).cells[cell].outputs
        except nbformat.reader.NotJSONError:  # it is being written
            return []

    page.command("docmanager:save")
    return until(lambda: (now := outputs()) and words in str(now) and now)


def readable(page):
    """Every text has the contrast that WCAG asks of text; a control that can not act may be paler, and yet it is to be
    read. The page is hidden for a moment when its theme changes: what counts is how it then stands."""
    deadline = time.monotonic() + 60
    while True:
        seen = page.contrasts()
        pale = [one for one in seen if one[0] < (3.0 if one[1] else 4.5)]
        if len(seen) > 100 and not pale:
            return
        assert time.monotonic() < deadline, (len(seen), pale)
        time.sleep(0.1)


def test_the_quickstart_runs_by_clicking(notebook):
    """Down to the run with two deaths, live, in a lab that can be looked at from here."""
    code = [c.source for c in nbformat.read(QUICKSTART, as_version=4).cells if c.cell_type == "code"]
    code = code[: next(i for i, source in enumerate(code) if "--crash" in source) + 1]
    code = [s.replace("%env AGENTLAB_DISPLAY=plain", "") for s in code if "tasks" not in s]
    code = [s.replace("{home.name}/lab", "lab") for s in code]
    page = notebook(*code, "%agent log", "%agent locate")
    page.run_cell(0)
    live = page.seen("Interrupt pauses at the next safe point")
    page.page.locator(".lm-MenuBar-itemLabel", has_text="Run").click()
    page.page.locator(".lm-Menu-itemLabel", has_text="Run All Cells").first.click()
    until(live)
    page.picture("live")
    page.page.get_by_text("sales_report-2: timeline").wait_for()
    page.page.get_by_text("sales_report-2: ended").wait_for()
    text = page.page.locator(".jp-Notebook").inner_text()
    assert text.count("✓ completed") == 2
    assert "harness@tool_result" in text and "sandbox@step=4" in text
    assert "Error" not in text
    page.page.get_by_text("sales_report-2: timeline").click()
    page.page.locator("details", has_text="sales_report-2: timeline").locator("pre").wait_for()
    page.picture("done")


def test_harness_and_sandbox_are_killed_in_the_middle_of_a_tool(notebook):
    page = notebook(BEGIN.replace("COUNT", "10"), "%agent panel --task job")
    held, later = hold(2, page.folder), hold(5, page.folder)
    page.run_cell(0)
    page.run_cell(1)
    page.status("new")
    page.page.locator(".al-strike.al-cannot", has_text="kill harness").first.click()
    page.page.locator(".al-said.bad", has_text="it has no harness yet").wait_for()
    page.button("run").click()
    session = session_of(page)
    at_work(page, session, 2)
    page.status("running")
    page.button("recovery").click()
    page.button("kill harness").click()
    page.status("crashed")
    page.page.locator(".al-crash", has_text="its harness is gone").wait_for()
    page.picture("crashed", True)
    held.unlink()
    page.button("wake").click()
    page.page.locator(".al-crash.over", has_text="harness").wait_for()
    at_work(page, session, 5)
    page.button("kill sandbox").click()
    until(lambda: kinds(session).count("fault_injected") == 2)
    later.unlink()
    page.page.locator(".al-crash.over", has_text="sandbox").wait_for()
    page.status("completed")
    text = page.panel_text()
    assert all(f"✓ {step}" in text for step in ("load", "rebuild", "verify", "statement", "restored"))
    assert kinds(session).count("sandbox_lost") == 1 and kinds(session).count("harness_died") == 1
    each_call_once(session, 10)
    record = page.page.locator("details", has_text="stays in the saved notebook").filter(has_text="✓ completed")
    record.first.wait_for(state="attached")
    assert "data:image/png;base64," in saved(page, 1, "✓ completed")[-1]["data"]["text/html"]
    mark = page.page.locator(".al-m.al-l5", has_text="fault_injected").first
    mark.hover()
    mark.locator(".al-pop b", has_text="fault_injected").wait_for()
    mark.click()
    mark.locator(".al-pop i", has_text='"action":"kill"').wait_for()
    page.picture("killed", True)
    for section in ("inject", "budget", "log"):
        page.button(section).click()
    page.page.locator(".al-log").wait_for()
    for dark in (True, False):
        page.dark(dark)
        readable(page)
        page.picture(f"killed-{'dark' if dark else 'light'}", True)


def test_kill_wake_and_fork_without_a_mouse(notebook):
    page = notebook(BEGIN.replace("COUNT", "12"), "%agent panel --task job")
    held, later = hold(3, page.folder), hold(7, page.folder)
    page.run_cell(0)
    page.run_cell(1)
    page.status("new")
    keys = page.page.keyboard
    keys.press("Escape")

    def press(words):
        """Tab to the button with these words, and press it."""
        for _ in range(120):
            focused = page.page.evaluate("() => document.activeElement.innerText || ''")
            if words in focused and len(focused) < 40:
                keys.press("Enter")
                return
            keys.press("Tab")
        raise AssertionError(f"{words!r} can not be reached with Tab")

    page.button("run").focus()  # as Tab from the cell above does; where a notebook's Tab begins is JupyterLab's affair
    press("run")
    session = session_of(page)
    at_work(page, session, 3)
    page.button("kill harness").wait_for()
    press("kill harness")
    page.status("crashed")
    held.unlink()
    page.button("run").focus()
    page.button("wake").wait_for()
    press("wake")
    at_work(page, session, 7)
    page.status("running")
    page.page.locator(".al-ck button", has_text="fork").first.wait_for()
    press("fork here")
    page.page.locator(".al-said", has_text=re.compile("fork|new session")).wait_for()
    later.unlink()
    page.status("completed")
    each_call_once(session, 12)
    assert page.page.locator(".jp-Notebook .jp-CodeCell").count() <= 3  # no key went to the notebook


def test_a_task_is_stepped_through_and_killed_in_notebook_7(notebook):
    """In Notebook 7; in JupyterLab where that is not installed."""
    page = notebook(BEGIN.replace("COUNT", "4"), "%agent panel --task job", notebook_7=NOTEBOOK_7)
    held = hold(2, page.folder)
    page.run_cell(0)
    page.run_cell(1)
    page.status("new")
    # While it runs, what was decided stands in the place of what is next.
    planned = page.page.locator(".al-next", has=page.page.locator("span", has_text="next")).locator("code")
    for _ in range(6):
        shown = planned.inner_text()
        page.button("step").click()
        page.page.locator(".al-said", has_text=f"did {shown[:30]}").wait_for()
        planned.filter(has_not_text=shown).wait_for()
    session = session_of(page)
    assert kinds(session).count("resume_requested") == 6
    page.button("run").click()
    at_work(page, session, 2)
    page.button("kill harness").click()
    page.status("crashed")
    held.unlink()
    page.button("wake").click()
    page.status("completed")
    each_call_once(session, 4)
    record = page.page.locator("details", has_text="stays in the saved notebook").filter(has_text="✓ completed")
    record.first.wait_for(state="attached")
    page.picture("notebook-7")
    saved(page, 1, "✓ completed")


ASKING = '''
def curious(view):
    return al.say("thanks") if view.results("ask_user") else al.call("ask_user", question="Which month?")

@al.tool(effect="pure", needs_approval=True)
def press() -> str:
    """Press the button."""
    return "pressed"

def pressing(view):
    return al.say("done") if view.calls("press") else al.call("press")

@al.tool(effect="external")
def send(text: str) -> str:
    """Send it; nobody can be asked later whether it was sent."""
    return f"sent {text}"

def sending(view):
    return al.say("done") if view.calls("send") else al.call("send", text="x")

lab = al.Lab("lab")
button = al.Task(name="button", goal="Press.", tools=[press], model=pressing, durability="process")
sending = al.Task(name="doubts", goal="Send.", tools=[send], model=sending, durability="process")
sessions = [
    lab.create(al.Task(name="asks", goal="Ask.", model=curious, durability="process")),
    lab.create(button, session_id="approves"),
    lab.create(button, session_id="denies"),
    lab.create(sending, crash=["harness@effect.reply"]),
    lab.create(job, session_id="job-1"),
]
'''


def test_five_sessions_side_by_side_four_ask_a_person_one_has_ten_thousand_events(notebook, record_property):
    """The page and what is sent to it stay small; how long updates take is the panel's own figure, reported only."""
    page = notebook(BEGIN.replace("COUNT", "6"), ASKING, "panel = al.panel(sessions)\npanel", "print(panel.updates)")
    page.run_cell(0)
    page.run_cell(1)
    long = session_of(page)
    for batch in range(10):
        marks = (Draft("checkpoint_requested", {"id": f"c{batch}.{n}"}) for n in range(500))
        faults = (
            Draft("fault_injected", {"id": f"f{batch}.{n}", "fault": "f" * 400, "target": "clock", "action": "skew"})
            for n in range(500)
        )
        long.add_input(*(draft for pair in zip(marks, faults, strict=True) for draft in pair))
    before = len(page.frames)
    page.run_cell(2)
    columns = page.page.locator(".al-column")
    columns.nth(4).wait_for()

    def press(column, words, such=READY):
        columns.nth(column).locator(f"button{such}", has_text=words).first.click()

    def shows(column, what, words):
        columns.nth(column).locator(what, has_text=words).wait_for()

    shows(4, ".al-figures", f"{long.state.seq:,}")
    press(4, "log")
    for column in range(5):
        shows(column, ".al-badge", "new")
        press(column, "run")
    for column, offered in enumerate((1, 2, 2, 3)):
        shows(column, ".al-badge", "waiting")
        buttons = columns.nth(column).locator(".al-question button:visible")
        until(lambda buttons=buttons, offered=offered: buttons.count() == offered)
    press(0, "step", ".al-cannot")
    shows(0, ".al-said", "it waits for a person: answer its question first")
    press(0, "reply", ".al-cannot")
    shows(0, ".al-said", "write the answer into the field first")
    page.picture("asked", True)
    columns.nth(0).locator(".al-question input").fill("May, don't you know")
    columns.nth(0).locator(".al-question input").press("Tab")
    for column, answer in enumerate(("reply", "approve", "deny", "it happened")):
        press(column, answer)
    for column in range(5):
        shows(column, ".al-badge", "completed")
        columns.nth(column).locator(".al-question").wait_for(state="hidden")
    answers = {
        "asks-1": "user_reply",
        "approves": "approval_given",
        "denies": "approval_denied",
        "doubts-1": "effect_settled",
    }
    for name, answer in answers.items():
        assert kinds(session_of(page, name)).count(answer) == 1, name
    (reply,) = (e for e in session_of(page, "asks-1").events() if e.type == "user_reply")
    assert reply.payload["text"] == "May, don't you know"

    each_call_once(long, 6)
    elements = columns.nth(4).locator("*").count()
    assert columns.nth(4).locator(".al-m").count() <= MARKS and elements < 3000, elements
    sent = page.frames[before:]
    assert max(sent) < 300_000, sorted(sent)[-5:]
    page.run_cell(3)
    figures = page.page.locator(".jp-OutputArea", has_text="updates: half within").first.inner_text()
    record_property("figures", figures)
    print(f"10,000 events in {elements} elements, {sum(sent):,} bytes in {len(sent)} frames; {figures}")


def test_a_blocking_run_is_interrupted_and_then_the_kernel_restarted(notebook):
    page = notebook(
        BEGIN.replace("COUNT", "14"),
        "%agent run job",
        "%agent wake --background",
        "%agent attach job-1",
        "%agent panel",
    )
    held, later = hold(2, page.folder), hold(6, page.folder)
    page.run_cell(0)
    page.run_cell(1)
    session = session_of(page)
    at_work(page, session, 2)
    page.command("notebook:interrupt-kernel")
    until(lambda: "pause_requested" in kinds(session))
    held.unlink()
    page.page.locator(".jp-OutputArea", has_text="‖ paused").first.wait_for()
    page.page.locator(".jp-OutputArea", has_text="%agent wake").first.wait_for()
    assert session.status().status == "paused" and kinds(session).count("harness_woken") == 1
    page.run_cell(2)
    at_work(page, session, 6)
    page.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    until(lambda: session.status().status == "crashed")
    later.unlink()
    page.await_kernel()
    page.run_cell(0)
    page.run_cell(3)
    page.page.locator(".jp-OutputArea", has_text="✗ crashed").first.wait_for()
    page.run_cell(4)
    page.status("crashed")
    page.button("wake").click()
    page.status("completed")
    assert kinds(session).count("harness_woken") == 3
    each_call_once(session, 14)


def test_the_page_is_reloaded_and_opened_twice(notebook):
    page = notebook(BEGIN.replace("COUNT", "16"), "%agent panel --task job", "%agent panel job-1")
    page.run_cell(0)
    page.run_cell(1)
    page.status("new")
    saved(page, 1)
    page.page.reload()
    page.await_kernel()
    page.status("new")
    page.page.locator(".al-note", has_text="For a new one open the panel again").wait_for()
    held = hold(3, page.folder)
    page.button("run").click()
    page.status("running")
    other = notebook(again=True)
    other.status("running")
    other.button("pause").click()
    session = session_of(page)
    until(lambda: "pause_requested" in kinds(session))
    held.unlink()
    for tab in (page, other):
        tab.status("paused")
    page.button("run").click()
    for tab in (page, other):
        tab.status("completed")
    each_call_once(session, 16)
    # What was last used in a tab that is closed now is heard from the other one all the same.
    other.button("log").click()
    for tab in (page, other):
        tab.page.locator(".al-log").first.wait_for()
    other.command("application:close")
    other.page.locator(".al-panel").first.wait_for(state="detached")
    page.button("log").click()
    page.page.locator(".al-log").first.wait_for(state="hidden")
    # A page can not update what it read from the file: the panel has said so, and opened again it makes a new record.
    page.run_cell(2)
    record = page.page.locator("details", has_text="record of job-1").filter(has_text="✓ completed")
    record.first.wait_for(state="attached")
    saved(page, 2, "✓ completed")
    assert page.page.locator(".al-note:visible").count() == 1  # beside the new one nothing is said
