"""From a line to a verb: words, mistakes, names of cells, expansion."""

from __future__ import annotations

import contextlib
import io
import re
import shutil

import pytest

import agentlab as al
from agentlab.counting import counted
from agentlab.errors import UserError
from agentlab.notebook import Request, agent, all_verbs, verb
from agentlab.notebook.parsing import split
from agentlab.notebook.results import RunResult
from agentlab.notebook.twins import TWINS
from agentlab.notebook.views import HelpView, LabView, Said
from tests.notebook.conftest import SLOW, held_in, hold, let_go

TINY = '''
import agentlab as al

@al.tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b

def answer(view):
    return al.say("done") if view.calls("add") else al.call("add", a=1, b=2)

adding = al.Task(name="sum", goal="Add 1 and 2.", tools=[add], model=answer, durability="process")
'''


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("run sales_report", ["run", "sales_report"]),
        ('run x --policy "every 3"', ["run", "x", "--policy", "every 3"]),
        ("run x --policy='every 3'", ["run", "x", "--policy=every 3"]),
        ("reply don't do it", ["reply", "don't", "do", "it"]),
        ('run --param text="a b" x', ["run", "--param", "text=a b", "x"]),
        ("""run --param data='{"a": 1}'""", ["run", "--param", 'data={"a": 1}']),
        ('reply "', ["reply", '"']),
    ],
)
def test_words(line, words):
    assert split(line) == words


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rnu", "no verb 'rnu': did you mean run?"),
        ("xyzzy", "no verb 'xyzzy'; see %agent help"),
        ("run sales_reprt", "no task named 'sales_reprt': did you mean sales_report?"),
        ("run", "which task? known: sales_report"),
        ("run sales_report --crsh harness@wake", "no option --crsh: did you mean --crash"),
        ("run sales_report --crash", "%agent run: --crash: a value must follow"),
        ("run sales_report --crash harness@tool_reslt", "no crash point named 'tool_reslt': did you mean tool_result"),
        ("run sales_report --crash harnes@tool_result", "no fault target named 'harnes': did you mean harness?"),
        ("run sales_report --crash nonsense", "is no fault; write target@point"),
        ("run sales_report --policy evry=3", "no checkpoint policy named 'evry': did you mean every"),
        ("run sales_report --scheme hybrd", "'hybrd' is none of hybrid, events, snapshot: did you mean hybrid?"),
        ("run sales_report --param receiver_url", "write NAME=VALUE"),
        ("run sales_report --limit max_turn=3", "max_turn"),
        ('run sales_report --crash "harness@wake', "the quote in '\"harness@wake' is not closed"),
        ("status 'one", "is not closed"),
        ('run sales_report --param text="a b', "is not closed"),
        ("run sales_report --tool nothing", "no tool named 'nothing'"),
        ("run sales_report extra", "'extra' is one word too many"),
        ("run sales_report --seed many", "--seed: invalid int value: 'many'"),
        (
            "run sales_report --param recever_url=x",
            "no parameter of task 'sales_report' named 'recever_url': did you mean receiver_url?",
        ),
        ("run sea_table --param nonsense=1", "task 'sea_table' has no parameter 'nonsense'"),
        ("panel --task sea_table --param nonsense=1", "task 'sea_table' has no parameter 'nonsense'"),
        ("run sales_report --timeout -1", "--timeout: a number of seconds from 0 on, not '-1'"),
        ("run sales_report --timeout soon", "a number of seconds from 0 on, not 'soon'"),
        ("step --task sales_report --timeout nan", "a number of seconds from 0 on, not 'nan'"),
        ("kill", "missing: target"),
        ("kill harnes", "did you mean harness?"),
        ("wake", "there is no session here yet"),
        ("status sales_report-1", "no session named 'sales_report-1'"),
        ("settle", "missing: key, decision"),
        ("lab {__file__}", "is a file; a lab is a folder"),
    ],
)
def test_a_mistake_is_one_line_without_a_traceback(shell, line, said):
    shell.ip.push({"__file__": __file__})
    complaint = shell.complaint(f"%agent {line}")
    assert complaint.startswith("UsageError: ")
    assert said in complaint
    assert "\n" not in complaint and "Traceback" not in complaint


def test_help(shell):
    listed = shell.run("%agent help")
    assert isinstance(listed, HelpView)
    assert all(one.example in listed.text() for one in all_verbs().values())
    one = shell.run("%agent run -h")
    assert "--crash FAULT" in one.text() and shell.run("%agent help run").text() == one.text()
    doc = shell.ip.object_inspect("%agent")["docstring"]
    assert "%agent run sales_report --crash harness@tool_result" in doc


def test_every_verb_can_show_its_help():
    assert set(all_verbs()) >= {
        "approve", "attach", "checkpoint", "deny", "help", "kill", "lab", "locate", "log", "pause", "plan", "reply", "run",
        "sessions", "settle", "start", "status", "step", "tasks", "verify", "wake", "where",
    }  # fmt: skip
    for name in all_verbs():
        shown = agent(f"{name} -h")
        assert isinstance(shown, HelpView) and name in shown.text() and shown.html()
        assert "(%%agent" not in shown.text(), f"{name}: a doubled percent sign of argparse is shown"


def test_every_verb_has_a_twin_in_python(here):
    """Its help says what to write, and what it says is there."""
    assert set(all_verbs()) == {*TWINS, "where", "help"}
    roots = {"al": al, "lab": here.lab, "session": here.lab.create("sales_report")}
    for name, twin in TWINS.items():
        paths = re.findall(r"(?<![.\w'])((?:al|lab|session)(?:\.\w+)+)", twin)
        assert paths, twin
        for path in paths:
            root, *parts = path.split(".")
            found = roots[root]
            for part in parts:
                found = getattr(found, part)
            assert callable(found), twin
        assert twin in agent(f"{name} -h").text()


def test_later_modules_add_verbs(shell):
    @verb("echo", "say it again", arguments=lambda parser: parser.add_argument("words", nargs="*") and None)
    def echo(request: Request) -> Said:
        return Said("echo", " ".join(request.options.words))

    try:
        assert shell.run("%agent echo a b").sentence == "a b"
        assert "did you mean echo" in shell.complaint("%agent ehco")
    finally:
        from agentlab.notebook import registry

        registry._verbs.pop("echo")


def test_loading_twice_reloading_and_unloading(shell):
    magics = shell.ip.magics_manager.magics
    before = magics["line"]["agent"]
    shell.run("%load_ext agentlab")
    shell.run("%reload_ext agentlab")
    assert isinstance(shell.run("%agent"), LabView)
    assert magics["line"]["agent"].__func__ is before.__func__
    shell.run("%unload_ext agentlab")
    assert "agent" not in magics["line"] and "agent" not in magics["cell"]
    shell.run("%load_ext agentlab")
    assert "agent" in magics["line"]


def test_a_task_of_a_cell_by_variable_and_by_name(shell):
    shell.run(TINY)
    first = shell.run("%agent run adding")
    second = shell.run("%agent run sum")
    assert (first.session.id, second.session.id) == ("sum-1", "sum-2")
    assert isinstance(first, RunResult) and first.status.status == second.status.status == "completed"
    assert "adding" in shell.run("%agent tasks").text()
    assert "did you mean adding?" in shell.complaint("%agent run addin")


def test_the_line_is_expanded_and_the_body_is_not(shell):
    shell.run(TINY)
    shell.run("which = 'adding'")
    goal = "Keep {which}, {nope} and $which."
    result = shell.run(f"%%agent run {{which}}\n{goal}\n")
    assert result.session.definition.goal == goal
    assert shell.run("%agent run $which").task == "sum"


def test_a_goal_alone_with_a_model_and_tools_of_cells(shell):
    shell.run(TINY)
    result = shell.run("%%agent run --model answer --tools add\nAdd 1 and 2.")
    assert result.session.id == "goal-1" and result.status.status == "completed"
    assert "needs a model" in shell.complaint("%%agent run\nAdd 1 and 2.")
    assert "takes no cell body" in shell.complaint("%%agent status\nx")


def test_parameters_and_limits(shell):
    shell.run(TINY)
    shell.run(
        "@al.tool(effect='pure')\ndef add(a: int, b: int) -> int:\n    'Add.'\n    return a + b * al.task_params().get('n', 1)\n"
        "adding = al.Task(name='sum', goal='Add.', tools=[add], model=answer, params={'name': ''}, durability='process')"
    )
    session = shell.run('%agent run adding --param n=5 --param name="a b" --limit max_turns=7 --policy every=9').session
    assert session.definition.params == {"n": 5, "name": "a b"}
    assert session.definition.limits.max_turns == 7
    assert session.definition.policy.args == {"n": 9}
    assert "no parameter of task 'sum' named 'nme': did you mean name" in shell.complaint(
        "%agent run adding --param nme=1"
    )
    assert "no parameter of task 'sum' named 'x': known: n, name" in shell.complaint(
        "%agent step --task adding --param x=1"
    )
    assert len(session.lab.sessions()) == 1  # nothing was begun


def test_every_line_of_a_cell_shows_its_own(shell):
    """As each would alone; what is kept in a name, and other expressions, stay as IPython has them."""
    shell.run(TINY)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        shell.ip.run_cell(
            "%agent run adding\nkept = %agent status\n7 * 6\nfor n in (1, 2):\n    %agent log --from {n} --to {n}\n%agent plan"
        )
    text = out.getvalue()
    assert text.count("sum-1: completed, 0 of 0 steps done") == 1 and "42" not in text
    assert text.index("sum-1: completed") < text.index("session_started") < text.index("not done yet")
    assert text.count("sum-1: 1 event\n") == 2
    shell.run("%unload_ext agentlab")
    assert not shell.ip.ast_transformers
    shell.run("%load_ext agentlab")


def test_the_same_from_python(here):
    namespace = {}
    exec(TINY, namespace)
    result = agent("run adding", namespace=namespace)
    assert result.status == here.session("sum-1").status()
    with pytest.raises(UserError, match="did you mean"):
        agent("rnu")


def test_lab_and_session_in_hand(shell, here, tmp_path):
    shell.run(TINY)
    assert shell.run("%agent").text().startswith("lab lab: no sessions yet")
    assert not (tmp_path / "lab").exists()
    shell.run("%agent run adding")
    assert here.lab.path == tmp_path / "lab"
    shell.run("%agent lab ./other")
    assert "no session here" in shell.complaint("%agent status")
    shell.run("%agent lab lab")
    assert shell.run("%agent status").status.session_id == "sum-1"
    assert shell.run("%agent attach sum-1").session is here.session()
    assert al.Lab(tmp_path / "lab").session("sum-1").status() == here.session().status()


def test_a_lab_that_was_deleted_begins_anew(shell, tmp_path):
    shell.run(TINY)
    for _ in range(2):
        shell.run("%agent lab again")
        assert shell.run("%agent run adding").session.id == "sum-1"
        shutil.rmtree(tmp_path / "again")


def test_step_plan_kill_wake(shell):
    shell.run(TINY)
    shell.run("%agent step --task adding")
    seen = []
    for _ in range(3):
        planned = shell.run("%agent plan").command
        step = shell.run("%agent step")
        assert step.before == planned
        seen.append(step.before.name)
    assert seen == ["AskModel", "RunCall", "AskModel"]
    assert shell.run("%agent kill harness").sentence.startswith("killed: harness of sum-1")
    assert "no living harness" in shell.complaint("%agent kill harness")
    assert shell.run("%agent wake").status.status == "completed"
    assert "has ended" in shell.complaint("%agent wake")
    assert "has ended" in shell.complaint("%agent step")


def test_in_the_background(shell):
    shell.run(SLOW)
    held, later = hold(2), hold(6)
    started = shell.run("%agent run slow --background")
    assert isinstance(started, Said) and shell.run("%agent status").status.status == "running"
    shell.run("%agent checkpoint here")
    let_go(held, started.session, "pause_requested")
    paused = shell.run("%agent pause")
    assert paused.status.status == "paused" and "nothing to pause" in shell.complaint("%agent pause")
    woken = shell.run("%agent wake --background")
    assert isinstance(woken, Said)
    held_in(started.session, 6)
    killed = shell.run("%agent kill harness")
    assert killed.session.status().status == "crashed"
    assert shell.run("%agent locate").located.condition == "harness_dead"
    later.unlink()
    assert shell.run("%agent wake --timeout 60").status.status == "completed"
    assert "checkpoint_written" in {event.type for event in killed.session.events()}


ASKING = '''
import agentlab as al

def curious(view):
    answers = view.results("ask_user")
    return al.say("thanks") if answers else al.call("ask_user", question="Which month?")

asking = al.Task(name="asking", goal="Ask.", model=curious, durability="process")

@al.tool(effect="pure", needs_approval=True)
def press() -> str:
    """Press the button."""
    return "pressed"

def pressing(view):
    return al.say("done") if view.calls("press") else al.call("press")

button = al.Task(name="button", goal="Press.", tools=[press], model=pressing, durability="process")
'''


def test_answers(shell):
    shell.run(ASKING)
    waiting = shell.run("%agent run asking")
    assert waiting.status.status == "waiting" and "%agent reply --wake TEXT" in waiting.text()
    assert "Which month?" in shell.complaint("%agent wake")
    shell.run("%agent reply May, don't you know")
    assert shell.run("%agent status").status.status == "paused"
    assert shell.run("%agent wake").status.status == "completed"
    assert "asks nothing now" in shell.complaint("%agent reply again")
    assert shell.run("%agent run button").status.status == "waiting"
    assert shell.run("%agent approve --wake").status.status == "completed"
    assert shell.run("%agent run button").status.status == "waiting"
    assert shell.run("%agent deny --wake because").status.status == "completed"
    assert "no effect in doubt" in shell.complaint("%agent settle nokey done")


def test_numbers_agree_with_their_nouns(shell):
    assert [counted(n, "harness death") for n in (0, 1, 2, 12000)] == [
        "0 harness deaths", "1 harness death", "2 harness deaths", "12,000 harness deaths",
    ]  # fmt: skip
    assert counted(1, "crash", "crashes") == "1 crash" and counted(2, "crash", "crashes") == "2 crashes"
    shell.run(TINY)
    shell.run("%agent step --task adding")
    said = shell.run("%agent status").text()
    assert "0 turns" in said and "0 harness deaths" in said
    for _ in range(2):
        shell.run("%agent step")
    assert "1 turn, " in shell.run("%agent status").text()
    assert "1 session" in shell.run("%agent").text() and "1 sessions" not in shell.run("%agent sessions").html()


def test_a_limit_of_sessions_is_kept_in_the_lab():
    assert "at most" not in str(agent("lab ./limited"))
    assert "at most 2 at once" in str(agent("lab ./limited --max-sessions 2"))
    assert al.Lab("limited").queue.max_sessions == 2
    assert "at most 2 sessions at once" in str(agent("queue"))
    for wrong in ("0", "-1", "many"):
        with pytest.raises(UserError, match="--max-sessions"):
            agent(f"lab --max-sessions {wrong}")
    agent("lab --max-sessions none")
    assert al.Lab("limited").queue.max_sessions is None and "no limit" in str(agent("queue"))
