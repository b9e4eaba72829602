"""Anchors: found by rule, set and taken away by a tool, always visible, capped with an event and a pause."""

from agentlab.context.anchors import found_in, new_in
from agentlab.definition import BUILTIN_TOOLS, Limits, ToolSpec
from agentlab.events import Draft
from agentlab.harness.loop import turn
from agentlab.lab.inputs import append_input
from agentlab.models.scripted import call, say
from agentlab.session.commands import Rest
from tests.harness.worlds import OBJECT, Outside, local, task, world


def order(order_id=None, region="north"):
    return {"order_id": order_id or 4711, "state": "shipped", "note": "x" * 500}


def run(policy, turns=40, tools=(), **context):
    made = world(Outside(), policy, {"order": order})
    spec = ToolSpec("order", "Look an order up.", OBJECT, ref=local("order"))
    made.accept(
        task(
            steps=(), validator=None, tools=(spec, *tools, *BUILTIN_TOOLS.values()), context=context,
            limits=Limits(max_turns=turns), guard={"enabled": False},
        ),
        "s",
    )  # fmt: skip
    why = made.run("s")
    return made, why, list(made.store.open("s").replay())


def test_ids_filters_and_parameters_are_found_by_their_names():
    found = found_in("get", {"region": "north", "limit": 5, "query": "x"}, {"order_id": 7, "id": 3, "rows": [1]}, False)
    assert found == {"region": "north", "order_id": "7"}
    assert found_in("notify", {"message": "hi"}, {"id": "n-1"}, True) == {"notify.id": "n-1"}
    assert found_in("t", {"orderId": "A7", "month": "2023-05"}, None, False) == {"orderId": "A7", "month": "2023-05"}
    assert (
        found_in("t", {"valid": True, "grid": 4, "paid": "x", "where": ""}, {"order_id": {"$blob": "x"}}, False) == {}
    )
    assert found_in("t", {"where": "a" * 201}, {"text_id": "two\nlines"}, False) == {}
    assert found_in("t", {"number": 4, "invoice_number": 5}, None, False) == {"invoice_number": "5"}
    assert new_in({"a": "1"}, {"a": "2", "b": "3", "c": "4"}, 2) == {"a": "2", "b": "3"}


def test_what_a_call_established_is_an_event_and_stays_in_every_request():
    shown = []

    def policy(view):
        shown.append(view.request.messages[0]["content"][0]["text"])
        number = len(shown)
        return [say("next"), call("order", region="north" if number < 3 else "south")] if number < 30 else say("done")

    made, why, events = run(policy, max_rounds=6, keep_rounds=2)
    assert why == "ended"
    anchors = [(e.payload["name"], e.payload["value"], e.payload["source"]) for e in events if e.type == "anchor_set"]
    assert anchors == [("region", "north", "rule"), ("order_id", "4711", "rule"), ("region", "south", "rule")]
    assert "context_compacted" in {e.type for e in events}
    assert all("- region: north" in text and "- order_id: 4711" in text for text in shown[1:3])
    assert all("- region: south" in text for text in shown[3:])
    # The event stands in the same commit as the result that it comes from.
    first = next(e for e in events if e.type == "anchor_set")
    assert next(e for e in events if e.type == "tool_result").commit_id == first.commit_id


def test_extraction_can_be_switched_off():
    def policy(view):
        return [say("x"), call("order", region="north")] if not view.calls() else say("done")

    _, _, events = run(policy, extract=False)
    assert "anchor_set" not in {e.type for e in events}


def test_the_cap_is_an_event_and_one_pause_and_a_place_can_be_freed():
    names = iter([("a", "1"), ("b", "2"), ("c", "3"), ("c", "3"), ("a", ""), ("c", "3"), ("d", "4")])

    def policy(view):
        found = next(names, None)
        return say("done") if found is None else [say("pin"), call("remember", name=found[0], value=found[1])]

    made, why, events = run(policy, anchors=2)
    assert why == "paused" and events[-1].payload["reason"] == "anchors"
    full = [e.payload for e in events if e.type == "anchors_full"]
    assert full == [{"name": "c", "value": "3", "cap": 2}]
    error = next(e for e in events if e.type == "tool_error")
    assert "take one away" in error.payload["message"]
    append_input(made.store.open("s"), (Draft("resume_requested", {"id": "r1"}),), made.clock, made.ids)
    assert made.run("s") == "paused"  # freed, c pinned, and d is one too many: a new pause
    events = list(made.store.open("s").replay())
    assert [e.payload["name"] for e in events if e.type == "anchors_full"] == ["c", "d"]
    append_input(made.store.open("s"), (Draft("resume_requested", {"id": "r2"}),), made.clock, made.ids)
    rig = made.wake("s")
    states = []
    while not isinstance(turn(rig), Rest):
        states.append(rig.state)
    assert dict(states[-1].context.anchors) == {"b": "2", "c": "3"}


def test_a_fact_needs_a_name_of_one_line_and_nothing_is_no_value():
    names = iter([("", "1"), (" \n", "2"), ("the\n# goal", "3"), ("case", "A-17"), ("case", None)])

    def policy(view):
        found = next(names, None)
        return say("done") if found is None else [say("pin"), call("remember", name=found[0], value=found[1])]

    made, _, events = run(policy)
    assert [e.payload["kind"] for e in events if e.type == "tool_error"] == ["bad_input"] * 2
    assert dict(made.wake("s").state.context.anchors) == {"the # goal": "3"}


def test_rules_find_no_place_either_when_the_anchors_are_full():
    def policy(view):
        return [say("x"), call("order", region="north")] if not view.calls() else say("done")

    made, why, events = run(policy, anchors=1)
    assert why == "paused"
    assert [e.payload["name"] for e in events if e.type == "anchors_full"] == ["order_id"]
    assert [e.payload["name"] for e in events if e.type == "anchor_set"] == ["region"]
