"""session.context() and session.guard(): a real session looked at; and the guard as a function over events."""

import json

import pytest

import agentlab as al
from agentlab.definition import Limits, StepSpec, ToolSpec
from agentlab.errors import BadDefinition, UserError
from agentlab.guard import GuardPolicy
from agentlab.notebook.verbs.keeping import ContextView, GuardView
from tests.harness.worlds import OBJECT, Outside, local, task, world


@al.tool(effect="pure", kind="query")
def look(region: str, n: int) -> dict:
    """Look.

    Args:
        region: where
        n: which
    """
    return {"order_id": 4711, "text": f"{region} {n} " * 200}


def circling(view):
    """Looks at the same thing for ever."""
    return [al.say("look at the orders"), al.call("look", region="north", n=6)]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    circles = al.Task(
        name="orders",
        goal="Look at the orders of the north.",
        constraints=("Only the north.",),
        tools=[look],
        model=circling,
        params={"year": 2023},
        context={"max_rounds": 3, "keep_rounds": 2, "strategy": "results+window+conclusions"},
        durability="process",
    )
    with al.Lab(tmp_path_factory.mktemp("keeping") / "lab") as lab:
        yield lab.run(circles)


def test_the_context_tells_layers_what_went_and_what_is_pinned(session):
    report = session.context()
    assert [layer.name for layer in report.layers] == ["fixed", "task", "scratch"]
    assert all(layer.tokens > 0 for layer in report.layers) and report.tokens < report.window
    assert report.pinned == {"region": "north", "order_id": "4711"}
    cuts = [e for e in session.events() if e.type == "context_compacted"]
    assert [c.seq for c in report.compactions] == [e.seq for e in cuts] and report.dropped > 0
    asked = [e for e in session.events() if e.type == "model_request"]
    assert len(report.drift) == len(asked) - 1 and report.restated == ()
    json.dumps(report.to_json())
    text = str(report)
    for said in ("results+window+conclusions", "order_id", "4711", "1 constraint,", "compacted at", "drift now"):
        assert said in text
    view = ContextView(session, report)
    assert view.text() == text and "<table" in view.html() and "<script" not in view.html()


def test_the_guard_tells_findings_with_their_evidence(session):
    report = session.guard()
    assert [f.action for f in report.findings] == ["nudge", "pause"]
    recorded = [(r.rule, r.action, r.evidence) for r in report.recorded]
    assert recorded == [(f.rule, f.action, f.evidence) for f in report.findings], "a look back sees what the run saw"
    events = {e.seq: e for e in session.events()}
    for finding in report.findings:
        assert all(events[seq].type == "tool_result" for seq in finding.evidence)
        assert all("look" in report.calls[seq] and '"n":6' in report.calls[seq] for seq in finding.evidence)
    text = str(report)
    assert "2 findings" in text and "nudge" in text and f"event {report.findings[0].evidence[0]}" in text
    assert "<table" in GuardView(session, report).html()
    json.dumps(report.to_json())


def test_another_policy_finds_something_else_and_changes_nothing(session):
    before = session.state.seq
    assert session.guard({"same": [50, 60], "rules": ["repeat"]}).findings == ()
    assert session.guard(GuardPolicy(final="stop")).findings[-1].action == "stop"
    assert al.guard_findings(session) == list(session.guard().findings)
    assert session.state.seq == before
    with pytest.raises(BadDefinition, match="no setting"):
        al.guard_findings(session, {"colour": 1})


def test_a_setting_that_does_not_exist_is_refused_before_anything_is_written(tmp_path):
    with al.Lab(tmp_path / "lab") as lab:
        for field, value in (
            ("context", {"strategy": "magic"}),
            ("guard", {"colour": 1}),
            ("limits", {"retries": {"x": 1}}),
        ):
            with pytest.raises(UserError):
                lab.create(al.Task(name="t", goal="g", tools=[look], model=circling, **{field: value}))
        assert lab.statuses() == [] or not list(lab.statuses())


def test_events_of_any_origin_serve_and_the_run_and_the_look_back_agree():
    """Stateful reads, volatile arguments and a person's word count in the same way while it runs and afterwards."""
    results = iter(range(1000))

    def queue(n):
        return {"waiting": next(results) // 2}

    def policy(view):
        number = len(view.calls())
        if number < 12:
            return [al.say("wait"), al.call("queue", n=1)]
        return [al.say("again"), al.call("add", a=1, b=2, nonce=number)]

    stateful = ToolSpec("queue", "Look.", OBJECT, ref=local("queue"), stateful_read=True)
    noisy = ToolSpec("add", "Add.", OBJECT, ref=local("plus"), volatile=("nonce",))
    made = world(Outside(), policy, {"queue": queue, "plus": lambda a, b, nonce: a + b})
    limits = Limits(rounds_per_step=None)
    made.accept(task(steps=(StepSpec("s", tool="send"),), tools=(stateful, noisy), validator=None, limits=limits), "s")
    assert made.run("s") == "paused"
    events = list(made.store.open("s").replay())
    verdicts = [
        (e.payload["rule"], e.payload["action"], tuple(e.payload["evidence"]))
        for e in events
        if e.type == "guard_verdict"
    ]
    assert [v[1] for v in verdicts] == ["nudge", "pause"]
    assert verdicts == [(f.rule, f.action, f.evidence) for f in al.guard_findings(events)]
    asked = {e.tool_name: e.payload for e in events if e.type == "tool_requested"}
    assert asked["queue"]["stateful_read"] is True and asked["add"]["volatile"] == ["nonce"]
