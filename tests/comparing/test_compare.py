"""``al.compare``: frame and summary, any executor, resumption, and what it refuses."""

import concurrent.futures
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import agentlab as al
from agentlab.authoring import task
from agentlab.comparing.conditions import Condition, Plan, expanded, policies_of
from agentlab.comparing.engine import conduct
from agentlab.comparing.latencies import Latencies
from agentlab.comparing.measuring import measure
from agentlab.comparing.simulating import Crashes, Simulation
from agentlab.comparing.summary import SUMMARY_COLUMNS, summarise, theory
from agentlab.errors import BadDefinition, UnknownName, UserError
from agentlab.experiments.columns import METRICS, RUN_COLUMNS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def threads():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture(scope="module")
def compared(threads):
    return al.compare(
        "sales_report", ["every=1,20", "daly"], faults=al.Poisson(mtbf=11), seeds=8, executor=threads, progress=False
    )


def test_the_frame_has_one_row_per_run_and_the_columns_that_are_written_down(compared):
    frame, summary = compared
    assert list(frame.columns) == list(RUN_COLUMNS) and len(frame) == 24
    assert {n: str(t) for n, t in frame.dtypes.items()} == {n: kind for n, (kind, _) in RUN_COLUMNS.items()}
    assert (
        list(dict.fromkeys(frame.condition)) == ["every=1", "every=20", "daly"]
        and frame.seed.tolist() == [*range(8)] * 3
    )
    assert (frame["mode"] == "simulated").all() and (frame.mtbf_s == 11).all() and frame.faults.sum() > 10
    parts = frame[["work_s", "overhead_s", "lost_s", "redone_s", "recovery_s"]].sum(axis=1)
    assert (parts - frame.total_s).abs().max() < 1e-6
    # The same seed, the same crashes: whatever the policy, the first crash falls at the same time.
    assert frame[frame.seed == 3].faults.nunique() <= 3 and summary.runs == 24


def test_the_summary_gives_each_metric_with_intervals_paired_by_seed(compared):
    summary = compared.summary
    assert list(summary.table.columns) == list(SUMMARY_COLUMNS) and len(summary.table) == 3 * len(METRICS)
    for condition in ("every=20", "daly"):
        row = summary.table[(summary.table.condition == condition) & (summary.table.metric == "overhead_s")].iloc[0]
        assert (
            row.difference_low < row.difference < row.difference_high < 0 and bool(row.certain) and row.runs_needed >= 2
        )
        assert row.low <= row["mean"] <= row.high
    by_hand = compared.frame[compared.frame.completed].set_index("seed").groupby("condition").total_s
    daly, base = by_hand.get_group("daly"), by_hand.get_group("every=1")
    assert summary.value("daly", "total_s", "difference") == pytest.approx((daly - base).dropna().mean())
    with pytest.raises(UnknownName):
        summary.value("weekly", "total_s")


def test_the_recommendation_is_a_sentence_that_says_how_sure_it_is(compared):
    text = compared.recommendation
    assert "95 % interval" in text and "seeds" in text and "few" in text
    assert text in compared.text() and text.split(".")[0] in compared._repr_html_()
    assert "Young's interval" in compared.text() and "seeds needed" in compared.text()


def test_the_result_shows_itself_without_anything_from_outside(compared):
    html = compared.html(picture=False)
    assert "<script" not in html and "<style" not in html and "http" not in html
    assert all(condition in html for condition in ("every=1", "every=20", "daly"))
    assert json.loads(json.dumps(compared.to_json()))["rows"][0]["policy"] == "every=1"


def test_processes_are_the_default_also_in_a_script_without_a_main_guard_and_give_the_same_numbers(compared, tmp_path):
    script = tmp_path / "study.py"
    script.write_text(
        "import agentlab as al\n"
        "print('begun')\n"
        "FACTOR = 10\n"
        "def times(number):\n    return FACTOR * number\n"
        "swept = al.sweep({'number': [1, 2]}, times, lab=al.Lab('lab'), progress=False)\n"
        "print(swept.frame['value'].tolist(), list(swept.frame['error']))\n"
        "found = al.compare('sales_report', ['every=1', 'daly'], faults=al.Poisson(mtbf=11), seeds=2, progress=False)\n"
        "print(found.frame['total_s'].tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stderr == ""
    begun, swept, totals = done.stdout.splitlines()
    assert (begun, swept) == ("begun", "[10, 20] ['', '']")
    here = [compared.frame[compared.frame.condition == c].total_s.tolist()[:2] for c in ("every=1", "daly")]
    assert json.loads(totals) == pytest.approx(here[0] + here[1])


def test_failed_runs_are_rows_and_times_of_unfinished_runs_are_in_no_mean(threads):
    found = al.compare(
        "sales_report", ["every=5", "never"], faults=al.CrashLoop(20), seeds=2, executor=threads, progress=False
    )
    assert (found.frame.outcome == "crash_loop").all() and not found.frame.completed.any()
    assert found.summary.value("never", "completed") == 0 and found.summary.value("never", "total_s", "runs") == 0
    assert "0/2" in found.text() and "No recommendation" in found.recommendation
    assert "4 of 4 runs did not finish: 4 crash_loop." in found.text() and "did not finish" in found.html(picture=False)


def test_a_comparison_shows_why_its_runs_failed_and_counts_only_whole_work(compared):
    frame = compared.frame.assign(completed=True, outcome="completed", error="", work_s=20.0)
    assert "did not finish" not in replace(compared, frame=frame).text()
    frame.loc[:1, ["completed", "outcome", "error", "work_s"]] = [False, "error", "OSError: full\ndisk", 1.0]
    told = replace(compared, frame=frame).text()
    assert "2 of 24 runs did not finish: 2 error; the first error: OSError: full disk." in told
    assert "the whole work is 20 s" in theory(frame)
    assert "no run did the whole work" in theory(frame.head(2))


PRICE = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}


def test_money_is_counted_by_its_price_and_an_unknown_price_is_not_nothing():
    prices = {"prices": {"scripted:agentlab.tasks.sales:policy": PRICE}}
    events = Simulation(task("sales_report"), Latencies(), budget=prices).run(Crashes(al.Times((5.0,)), "harness"), 0)
    found, spent = measure(events), [e.cost_microusd / 1e6 for e in events if e.type == "model_response"]
    # The second answer was cut: the recovery asks where the model stands, then it is asked again.
    assert found["model_calls_repeated"] == 2 and len(spent) == found["model_calls"] == 6
    assert found["cost_usd"] == pytest.approx(sum(spent))
    assert found["cost_repeated_usd"] == pytest.approx(spent[1] + spent[2])
    unpriced = [replace(e, model="claude", cost_microusd=None) if e.type == "model_response" else e for e in events]
    assert measure(unpriced)["cost_usd"] is None and measure(unpriced)["model_calls_repeated"] == 2
    free = [replace(e, cost_microusd=None) if e.type == "model_response" else e for e in events]
    assert measure(free)["cost_usd"] == 0


def test_few_seeds_have_no_interval_and_are_told_so(threads):
    found = al.compare("sales_report", ["every=1", "never"], seeds=3, executor=threads, progress=False)
    assert "Too few runs" in found.recommendation and "takes 6 seeds" in found.recommendation
    assert "none from 3 pairs" in found.text() and "nan" not in found.text() and "nan" not in found.html()
    table = found.summary.table
    assert table[table.metric == "total_s"].low.isna().all() and not table.certain.fillna(False).any()
    done = table[table.metric == "completed"]
    assert (done.high == 1).all() and done.low.tolist() == pytest.approx([0.4385] * 2, abs=1e-4)


def test_one_policy_alone_is_told_so(threads):
    found = al.compare("sales_report", ["never"], seeds=1, executor=threads, progress=False)
    assert "nothing to compare" in found.recommendation


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"policies": ["weekly=3"]}, UnknownName),
        ({"policies": []}, BadDefinition),
        ({"policies": ["never"], "schemes": ["magic"]}, UnknownName),
        ({"policies": ["never"], "mode": "dreamt"}, UnknownName),
        ({"policies": ["never"], "seeds": []}, BadDefinition),
        ({"policies": ["never"], "seeds": [1, 1]}, BadDefinition),
        ({"policies": ["never"], "baseline": "always"}, UnknownName),
        ({"policies": ["never"], "faults": -1.0}, BadDefinition),
        ({"policies": ["never"], "target": "moon"}, UnknownName),
        ({"policies": ["never"], "no_such_field": 1}, UnknownName),
        ({"policies": ["never"], "model": "no-such-model"}, UnknownName),
        ({"policies": ["never"], "faults": "weibull"}, BadDefinition),
        ({"policies": ["never"], "seeds": "3"}, BadDefinition),
        ({"policies": ["never"], "seeds": [1.5]}, BadDefinition),
        ({"policies": ["never"], "mode": "what-if"}, UserError),
        ({"policies": ["never"], "budget": {"prices": {"m": {"inptu": 3.0}}}}, BadDefinition),
    ],
)
def test_what_can_not_be_run_is_refused_before_anything_runs(given, error):
    with pytest.raises(error):
        al.compare("sales_report", progress=False, **given)


def test_what_is_no_task_is_refused_in_words():
    with pytest.raises(BadDefinition, match="not 5"):
        al.compare(5, progress=False)


def test_several_numbers_are_several_policies():
    assert list(policies_of(["every=1,5,20", "seconds=30"])) == ["every=1", "every=5", "every=20", "seconds=30"]
    assert expanded("budget=0.5,0.9") == ["budget=0.5,0.9"] and expanded("deadline=every:60,margin:5") == [
        "deadline=every:60,margin:5"
    ]


class _Runner:
    batch = 1

    def __init__(self, stop_after=None):
        self.stop_after, self.calls = stop_after, []

    def run(self, condition, seed):
        self.calls.append((condition.name, seed))
        if self.stop_after is not None and len(self.calls) > self.stop_after:
            raise KeyboardInterrupt
        return {"value": {"n": seed}}


class _Here(concurrent.futures.Executor):
    """Runs in this very thread, so that an interrupt is an interrupt."""

    _max_workers = 1

    def __init__(self, runner):
        self.runner = runner

    def submit(self, fn, payload, jobs):
        future = concurrent.futures.Future()
        future.set_result([(self.runner.run(condition, seed), "") for condition, seed in jobs])
        return future


def test_an_interrupted_experiment_goes_on_with_what_is_missing(tmp_path):
    lab = al.Lab(tmp_path)
    plan = Plan("sweep", "count", tuple(Condition(f"c{n}", {"n": n}) for n in range(4)), (0, 1))
    first = _Runner(stop_after=5)
    with pytest.raises(KeyboardInterrupt):
        conduct(plan, first, lab, executor=_Here(first), progress=False)
    (status,) = lab.statuses()
    assert status.status == "paused" and status.reason == "interrupted"
    second = _Runner()
    recording = conduct(plan, second, lab, executor=_Here(second), progress=False)
    assert recording.session_id == status.session_id and lab.statuses()[0].status == "completed"
    done = [(d.condition.name, d.seed) for d in recording.results()]
    assert sorted(done) == sorted((c.name, s) for c, s in plan.jobs()) and len(second.calls) < len(done)
    assert lab.session(recording.session_id).verify().seq > 0
    # What is complete is given back by its name, and begun anew without.
    third = _Runner()
    assert (
        len(list(conduct(plan, third, lab, name=status.session_id, executor=_Here(third), progress=False).results()))
        == 8
    )
    assert third.calls == []
    assert conduct(plan, third, lab, executor=_Here(third), progress=False).session_id != status.session_id


class _Interrupted(concurrent.futures.Executor):
    """Runs in this very thread, and is interrupted when it is given something for the third time."""

    _max_workers = 1

    def __init__(self):
        self.given = 0

    def submit(self, fn, *args):
        self.given += 1
        if self.given > 2:
            raise KeyboardInterrupt
        future = concurrent.futures.Future()
        future.set_result(fn(*args))
        return future


def test_a_comparison_goes_on_with_what_it_measured_when_it_began(tmp_path):
    """The lab gains sessions of the task while it is interrupted: these change what a new one measures, not this one."""
    with concurrent.futures.ThreadPoolExecutor(1) as one, al.Lab(tmp_path) as lab:

        def compare(mode, executor=one, **more):
            asked = {"policies": ["every=2", "never"], "faults": 3.0, "seeds": 60, "lab": lab, "progress": False}
            return al.compare("sea_table", mode=mode, executor=executor, **asked, **more)

        lab.run("sea_table", session_id="first", policy="steps=1", timeout_s=240)
        whole, begun = {}, {}
        for mode in ("simulated", "what-if"):
            whole[mode] = compare(mode)
            with pytest.raises(KeyboardInterrupt):
                compare(mode, _Interrupted())
            (begun[mode],) = {s.session_id for s in lab.statuses() if s.status == "paused"} - set(begun.values())
            done = [e for e in lab.session(begun[mode]).events() if e.type == "run_recorded"]
            assert 0 < len(done) < 120
        lab.run("sea_table", session_id="second", policy="every=1", timeout_s=240)
        for mode, before in whole.items():
            again = compare(mode)
            assert again.session_id == begun[mode] != before.session_id
            assert again.frame.equals(before.frame) and again.remarks == before.remarks and again.title == before.title
            fresh = compare(mode)
            assert fresh.session_id not in (begun[mode], before.session_id) and fresh.remarks != before.remarks
            assert not fresh.frame.total_s.equals(before.frame.total_s), "what is begun now measures anew"
            named = compare(mode, name=begun[mode])
            assert named.frame.equals(before.frame) and named.remarks == before.remarks, "given back as it was"


def test_another_plan_under_the_same_name_is_refused_and_says_what_differs(tmp_path):
    lab = al.Lab(tmp_path)
    plan = Plan("sweep", "count", (Condition("c", {}),), (0,))
    runner = _Runner()
    conduct(plan, runner, lab, name="mine", executor=_Here(runner), progress=False)
    with pytest.raises(UserError, match="seeds differ"):
        conduct(Plan("sweep", "count", (Condition("c", {}),), (0, 1)), runner, lab, name="mine", executor=_Here(runner))
    stopped = _Runner(stop_after=0)
    with pytest.raises(KeyboardInterrupt):
        conduct(plan, stopped, lab, name="other", executor=_Here(stopped), progress=False)
    with pytest.raises(UserError, match="is an experiment"):
        lab.session("other").wake()


def test_a_summary_needs_a_run():
    import pandas as pd

    with pytest.raises(BadDefinition):
        summarise(pd.DataFrame({name: [] for name in RUN_COLUMNS}))
