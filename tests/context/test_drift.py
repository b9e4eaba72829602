"""Drift: measured each round, told once past the threshold, judged by a model where one is named."""

import random

from agentlab.context.drift import action_terms, distance, extended, step_terms, task_terms, terms
from agentlab.definition import Limits, StepSpec
from agentlab.models.scripted import call, handles, say
from tests.harness.worlds import Outside, task, world

GOAL = "Summarise the sales of May 2023 by region and send one notification to the accounting team."


def words(*texts):
    return [action_terms({"content": [{"type": "text", "text": t}]}) for t in texts]


def test_terms_are_words_without_endings_stop_words_and_camel_case():
    assert terms("Summarise, summaries and summarized!") == terms("summarise")
    assert terms("readFile read_file READ-FILES") == {"read", "fil"}
    assert terms("the a of to and") == frozenset()
    assert terms("5 rows in 2023") == {"row", "2023"} | {t for t in terms("5") if t}
    assert terms("売上を集計する") & terms("五月の売上集計")


def test_on_course_is_nearer_than_off_course():
    task_ = [task_terms(GOAL, "", ["Only May 2023."], {})]
    on = distance(words("Read the sales of May", "Clean the rows by region", "summary by region"), task_)
    off = distance(words("Install matplotlib wheels", "pip can not build", "compile a C extension"), task_)
    assert on is not None and off is not None and on < 0.6 and off == 1.0
    assert distance([], task_) is None and distance(words("!!"), task_) is None


def test_the_step_and_the_course_count_too():
    task_ = task_terms("Fix it.", "", [], {})
    actions = words("parser raises KeyError in tokenizer", "edit tokenizer parser")
    course = ()
    for text in ("open the parser", "the tokenizer raises KeyError"):
        course = extended(course, {"content": [{"type": "text", "text": text}]})
    assert distance(actions, [task_]) == 1.0
    assert distance(actions, [task_], course) < 0.6
    assert distance(actions, [task_, step_terms("parser", "Repair the tokenizer", "", {}, "")]) < 0.5
    assert len(extended(tuple(map(str, range(48))), {"content": []})) == 48


def test_the_wrong_goal_is_farther_in_generated_runs():
    """Runs about one of many subjects: the own goal is nearer than another one, in nearly all pairs."""
    rng = random.Random(7)
    vocabulary = [f"{a}{b}{c}" for a in "bdfgk" for b in ("ala", "ero", "iso", "omu") for c in ("n", "t", "x")]
    subjects = [rng.sample(vocabulary, 8) for _ in range(30)]
    nearer = 0
    for number, subject in enumerate(subjects):
        actions = words(*(" ".join(rng.sample(subject, 2) + rng.sample(vocabulary, 2)) for _ in range(4)))
        own = distance(actions, [task_terms(" ".join(subject), "", [], {})])
        other = distance(actions, [task_terms(" ".join(subjects[(number + 1) % 30]), "", [], {})])
        nearer += own < other
    assert nearer >= 28


def run(policy, **context):
    made = world(Outside(), policy)
    steps = (StepSpec("report", "Sales by region", tool="send"),)
    limits = Limits(rounds_per_step=None, max_turns=14)
    made.accept(
        task(goal=GOAL, steps=steps, validator=None, limits=limits, context=context, guard={"enabled": False}), "s"
    )
    made.run("s")
    return list(made.store.open("s").replay())


def lost(view):
    number = len(view.calls())
    if number < 3:
        return [say("Summarise the sales by region"), call("add", a=number, b=1)]
    return [say(f"compile gcc wheels, attempt {number}"), call("add", a=number, b=1)]


def measured(events):
    asked = [e for e in events if e.type == "model_request" and e.payload["purpose"] == "act"]
    return [e.payload["layers"]["task"].get("drift") for e in asked]


def test_it_is_measured_in_every_round_and_told_past_the_threshold():
    seen = []

    def policy(view):
        seen.append(str(view.request.messages[-1]["content"]))
        return lost(view)

    events = run(policy, drift_threshold=0.8)
    drift = measured(events)
    assert len(drift) == 14 and drift[0] is None and all(d is not None for d in drift[1:])
    assert drift[2] < 0.8 < drift[8]
    told = [e for e in events if e.type == "drift_measured"]
    assert told and all(e.payload["distance"] > e.payload["threshold"] == 0.8 for e in told)
    assert len(told) <= 3, "not in every round"
    # The task layer, constraints too, is on top of the very request that the event stands before, and only of it.
    again = [number for number, text in enumerate(seen) if "The last rounds led away from the task" in text]
    requests = [e.seq for e in events if e.type == "model_request"]
    assert again == [next(i for i, seq in enumerate(requests) if seq > e.seq) for e in told]
    assert GOAL in seen[again[0]] and "Send once." in seen[again[0]]


def test_a_run_on_its_course_is_never_told():
    def policy(view):
        return [say("Sales by region: the next part of the summary"), call("add", a=len(view.calls()), b=1)]

    events = run(policy)
    assert "drift_measured" not in {e.type for e in events} and max(d for d in measured(events) if d is not None) < 0.9


def test_a_judge_is_asked_every_so_many_rounds_and_its_word_is_an_event():
    @handles("judge")
    def policy(view):
        if view.purpose == "judge":
            assert "compile gcc" in view.text or "Summarise" in view.text
            far = len([1 for line in view.text.splitlines() if "gcc" in line]) > 2
            return say('{"distance": %s, "why": "it builds compilers"}' % (0.95 if far else 0.1))
        return lost(view)

    events = run(policy, judge="session", judge_every=4, drift_threshold=0.9)
    judged = [e.payload for e in events if e.type == "drift_measured" and e.payload.get("by") == "model"]
    assert [j["restated"] for j in judged] == [False, True, True]
    assert judged[1]["why"] == "it builds compilers"
    asked = [e for e in events if e.type == "model_request" and e.payload["purpose"] == "judge"]
    assert len(asked) == 3 and all(e.payload["blocks"] == [] for e in asked)


def test_a_judge_that_fails_or_babbles_stops_nothing():
    from agentlab.errors import ModelError

    @handles("judge")
    def policy(view):
        if view.purpose == "judge":
            if len(view.text) % 2:
                raise ModelError("bad_request", "no")
            return say("I would rather not")
        return lost(view)

    events = run(policy, judge="session", judge_every=3)
    assert events[-1].payload["reason"] == "max_turns"
    assert not [e for e in events if e.type == "drift_measured" and e.payload.get("by") == "model"]


def test_the_scripted_model_judges_by_the_measure_it_is_given():
    events = run(lost, judge="session", judge_every=4)
    judged = [e.payload for e in events if e.type == "drift_measured" and e.payload.get("by") == "model"]
    assert judged and 0 <= judged[0]["distance"] <= 1
