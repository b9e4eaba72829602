"""The three schemes really differ: what they write, what they read back, what a crash loses, what can be explained."""

from __future__ import annotations

from collections import Counter

import pytest

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.definition import PolicySpec, StepSpec, ValidatorSpec
from agentlab.events import GENESIS, Head, verify_chain
from agentlab.lab.costs import crash_costs, total_tax
from agentlab.log.store import ParquetStore
from agentlab.models.scripted import call, say
from agentlab.session.fold import fold_all
from agentlab.session.schemes import SCHEMES
from agentlab.session.state import State
from agentlab.session.superseding import is_superseded, ranges

from .worlds import Outside, local, task, world

STEPS = 6


def policy(view):
    step = str(view.status.get("step") or "")
    if step.startswith("add"):
        return [say(step), call("add", a=int(step[3:]), b=len(step))]
    if step == "write":
        return [say("writing"), call("write", text="one line\n")]
    if step == "send":
        return [say("sending"), call("send", message="done")]
    return say("all done")


def definition(scheme, every=1000, **changes):
    steps = (
        StepSpec("write", validator=ValidatorSpec(local("written"))),
        StepSpec("send", tool="send", kind="downstream"),
        *(StepSpec(f"add{i}", tool="add") for i in range(STEPS)),
    )
    policy_ = PolicySpec("every_events", {"n": every})
    return task(scheme=scheme, steps=steps, validator=None, policy=policy_, **changes)


def crashed_run(scheme, every=1000, deaths=(6,), store=None, kill_sandbox=False, **changes):
    """A whole run of the task; its harness dies at the given model answers (counted over the whole run)."""
    outside = Outside()
    made = world(outside, policy)
    if store is not None:
        made.store = store
        made.__post_init__()
    made.accept(definition(scheme, every, **changes), "s")
    answers = 0

    def strike(point, when, detail):
        nonlocal answers
        if point is CrashPoint.MODEL_REPLY and detail == "act":
            answers += 1
            if answers in deaths:
                raise SimulatedDeath(f"at answer {answers}")

    for _ in range(len(deaths) + 1):
        crashpoints.arm(strike)
        try:
            assert made.run("s") == "ended"
            break
        except SimulatedDeath:
            for name in made.sandboxes.alive() if kill_sandbox else ():
                made.sandboxes.kill(name)
        finally:
            crashpoints.arm(None)
    events = list(made.store.open("s").replay(1))
    assert events[-1].type == "session_ended" and events[-1].payload["outcome"] == "completed"
    return made, outside, events


def woken(events):
    return [e.payload for e in events if e.type == "harness_woken"][-1]


def test_a_table_of_three_classes():
    assert set(SCHEMES) == {"hybrid", "events", "snapshot"}
    assert len({type(scheme) for scheme in SCHEMES.values()}) == 3


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("every", [8, 1000])
@pytest.mark.parametrize("kill_sandbox", [False, True])
def test_every_scheme_finishes_with_one_effect_and_the_whole_log(scheme, every, kill_sandbox):
    made, outside, events = crashed_run(scheme, every, deaths=(3, 7), kill_sandbox=kill_sandbox)
    verify_chain(events, Head(0, GENESIS))
    assert len(outside.delivered) == 1 and outside.requests == 1
    state = fold_all(State(hash=GENESIS), events)
    assert [step for step, _, _ in state.plan.recent][-STEPS:] == [f"add{i}" for i in range(STEPS)]
    aside = ranges(events)
    answers = [e for e in events if e.type in ("tool_result", "tool_error") and not is_superseded(e.seq, aside)]
    assert set(Counter(e.payload["call_id"] for e in answers).values()) == {1}, "one result in force for each call"


def test_hybrid_recovers_from_the_checkpoint_and_the_events_after_it():
    _, _, events = crashed_run("hybrid", every=8)
    assert woken(events)["checkpoint_seq"] and not ranges(events)
    assert {c.tax.events_superseded for c in crash_costs(events)} == {0}


def test_events_writes_no_checkpoint_and_folds_everything():
    _, _, events = crashed_run("events", every=2)
    assert not [e for e in events if e.type == "checkpoint_written"]
    assert woken(events)["cursor"] == 0 and not ranges(events)
    load = next(e for e in events if e.type == "recovery_step" and e.payload["step"] == "load")
    assert load.payload["detail"]["events"] == load.seq - 3, "every event before the opening"


def test_a_checkpoint_by_hand_under_events_is_written_and_not_rested_on():
    from agentlab.events import Draft
    from agentlab.harness.loop import turn
    from agentlab.harness.wake import load
    from agentlab.lab.inputs import append_input

    made = world(Outside(), policy)
    made.accept(definition("events"), "s")
    log = made.store.open("s")
    append_input(log, (Draft("checkpoint_requested", {"id": "c1", "label": "here"}),), made.clock, made.ids)
    rig = made.wake("s")
    for _ in range(20):
        turn(rig)
    rig.recorder.commit()
    assert log.pointers() and load(log, made.store.blobs).checkpoint is None


def test_snapshot_goes_back_and_does_it_again():
    _, outside, events = crashed_run("snapshot", every=12, deaths=(6,))
    (back,) = [e for e in events if e.type == "restored_to"]
    checkpoint = events[back.payload["checkpoint_seq"] - 1]
    assert checkpoint.type == "checkpoint_written" and back.payload["reason"] == "scheme snapshot"
    aside = ranges(events)
    lost = [e for e in events if is_superseded(e.seq, aside) and e.type == "tool_result"]
    assert lost, "what came after the newest checkpoint is given up"
    for result in lost:  # … and done again
        again = [
            e for e in events if e.type == "tool_result" and e.seq > back.seq and e.input_hash == result.input_hash
        ]
        assert again, result.tool_name
    (cost,) = crash_costs(events)
    assert cost.tax.events_superseded > 0 and cost.tax.tool_calls == len(lost) and cost.tax.tokens > 0
    assert len(outside.delivered) == 1


def test_snapshot_without_any_checkpoint_begins_again_and_repeats_no_effect():
    _, outside, events = crashed_run("snapshot", every=1000, deaths=(6,))
    (back,) = [e for e in events if e.type == "restored_to"]
    assert back.payload["checkpoint_seq"] == 0 and back.payload["superseded_from"] == 2
    assert len(outside.delivered) == 1 and outside.requests == 1, "the effect came before the crash and stands"
    reused = [e for e in events if e.type == "tool_result" and e.payload.get("reused")]
    assert [e.tool_name for e in reused] == ["send"]


def test_effects_and_budget_come_from_the_full_log_under_every_scheme():
    for scheme in SCHEMES:
        _, _, events = crashed_run(scheme, every=1000, deaths=(6,))
        state = fold_all(State(hash=GENESIS), events)
        answers = [e for e in events if e.type == "model_response"]
        assert state.budget.used["model_calls"] == len(answers)
        assert state.budget.used["input_tokens"] == sum(e.input_tokens for e in answers)
        assert state.effects.completed == 1


def test_a_second_crash_gives_up_only_what_the_first_had_left():
    _, _, events = crashed_run("snapshot", every=1000, deaths=(4, 9))
    first, second = crash_costs(events)
    aside = [p for p in (e.payload for e in events) if "superseded_from" in p]
    assert len(aside) == 2
    counted = first.tax.tool_calls + second.tax.tool_calls
    superseded = {e.seq for e in events if e.type == "tool_result" and is_superseded(e.seq, ranges(events))}
    reused = {e.seq for e in events if e.seq in superseded and e.payload.get("reused")}
    assert counted == len(superseded) - len(reused), "each result that was given up is the tax of one crash"
    assert total_tax(crash_costs(events)).tool_calls == counted


def test_the_same_task_under_each_scheme_compared_by_measurement(tmp_path, capsys):
    rows = {}
    for scheme in sorted(SCHEMES):
        store = ParquetStore(tmp_path / scheme)
        made, _, events = crashed_run(scheme, every=30, deaths=(5, 9), store=store, durability="process")
        stored = sum(p.stat().st_size for p in (tmp_path / scheme / "blobs").rglob("*") if p.is_file())
        tax = total_tax(crash_costs(events))
        read = sum(
            e.payload["detail"]["events"] for e in events if e.type == "recovery_step" and e.payload["step"] == "load"
        )
        explained = sum(e.type == "decision" for e in events)
        rows[scheme] = {
            "checkpoints": sum(e.type == "checkpoint_written" for e in events), "blob_bytes": stored,
            "events_read": read, "events_lost": tax.events_superseded, "tokens_again": tax.tokens, "decisions": explained,
        }  # fmt: skip
    with capsys.disabled():
        print()
        for scheme, row in rows.items():
            print(f"{scheme:>9}  " + "  ".join(f"{name} {value}" for name, value in row.items()))
    assert rows["events"]["checkpoints"] == 0 < rows["hybrid"]["checkpoints"] <= rows["snapshot"]["checkpoints"]
    assert rows["events"]["blob_bytes"] < rows["hybrid"]["blob_bytes"], "event sourcing is small"
    assert rows["events"]["events_read"] > rows["hybrid"]["events_read"], "and slow to read back"
    assert rows["snapshot"]["events_lost"] > 0 == rows["hybrid"]["events_lost"] == rows["events"]["events_lost"]
    assert rows["snapshot"]["tokens_again"] > rows["hybrid"]["tokens_again"]
    assert all(row["decisions"] >= STEPS + 2 for row in rows.values()), (
        "why each step was taken is on record under each"
    )


def test_the_tax_is_a_column_of_the_recoveries_frame(tmp_path):
    from agentlab.query import Query

    store = ParquetStore(tmp_path)
    _, _, events = crashed_run("snapshot", every=30, deaths=(5, 9), store=store, durability="process")
    found = Query(store).sql(
        "SELECT tax_tokens, tax_at_risk_tokens, tax_tool_calls, tax_bytes, tax_events FROM recoveries"
        " WHERE target = 'harness' ORDER BY seq"
    )
    costs = [c.tax for c in crash_costs(events) if c.target == "harness"]
    assert len(costs) == 2 and sum(c.events_superseded for c in costs) > 0
    assert found.values.tolist() == [
        [c.tokens, c.at_risk_tokens, c.tool_calls, c.bytes, c.events_superseded] for c in costs
    ]


def test_what_a_sandbox_that_died_with_its_harness_cost_is_counted_once(tmp_path):
    from agentlab.query import Query

    store = ParquetStore(tmp_path)
    _, _, events = crashed_run("hybrid", deaths=(6,), store=store, durability="process", kill_sandbox=True)
    costs = crash_costs(events)
    again = sum(e.type == "execution_rerun" for e in events)
    assert [c.target for c in costs] == ["harness", "sandbox"] and again > 0
    assert [c.commands_again for c in costs] == [again, 0] and total_tax(costs).commands_again == again
    found = Query(store).sql(
        "SELECT target, commands_again, effects_verified, model_calls, tokens, tax_bytes FROM recoveries ORDER BY seq"
    )
    assert found.values.tolist() == [
        [c.target, c.commands_again, c.effects_verified, c.model_calls, c.tokens, c.tax.bytes] for c in costs
    ]
