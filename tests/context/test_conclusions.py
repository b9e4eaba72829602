"""What is told of rounds that left: by rule, by a model, by rule when the model fails; and the way back by recall."""

import json

from agentlab.context import Outcome, conclusions, result_text
from agentlab.definition import BUILTIN_TOOLS, Limits, ToolSpec
from agentlab.errors import ModelError
from agentlab.models.scripted import call, handles, say
from tests.harness.worlds import OBJECT, Outside, local, task, world


def look(n):
    return {"n": n, "text": ("needle" if n == 3 else "hay") + f" {n} " + "x" * 30_000}


def run(policy, **context):
    made = world(Outside(), policy, {"look": look})
    spec = ToolSpec("look", "Look.", OBJECT, ref=local("look"))
    limits = Limits(max_turns=30, context_tokens=12_000)
    made.accept(
        task(steps=(), validator=None, tools=(spec, *BUILTIN_TOOLS.values()), limits=limits, context=context,
             guard={"enabled": False}), "s",
    )  # fmt: skip
    made.run("s")
    return list(made.store.open("s").replay())


class Looking:
    """Looks at one thing after another; at the end it asks for what it saw long ago."""

    def __init__(self, *asked, rounds=14):
        self.asked, self.rounds, self.requests, self.done = list(asked), rounds, [], 0

    def __call__(self, view):
        self.requests.append(view.request)
        self.done += 1
        if self.done <= self.rounds:
            return [say(f"look at {self.done}"), call("look", n=self.done)]
        if self.asked:
            return [say("what was it"), call("recall", **self.asked.pop(0))]
        return say("done")


def cuts(events):
    return [e.payload for e in events if e.type == "context_compacted"]


def test_conclusions_join_equal_calls_and_stay_bounded():
    same = [Outcome(i, i, "add", '{"a":1}', "3") for i in range(4)]
    text = conclusions("", [*same, Outcome(9, 9, "add", "{}", "boom", failed=True)])
    assert text.split("\n") == ['- add {"a":1} → 3 (4 times)', "- add {} → failed: boom"]
    long = text
    for number in range(200):
        long = conclusions(long, [Outcome(number, number, "look", f"{{{number}}}", "y" * 300)])
    assert len(long) <= 3_000 and "{199}" in long and long.startswith("(what came before")
    assert long.count("(what came before") == 1


def test_dropped_rounds_are_concluded_by_rule():
    model = Looking()
    events = run(model, strategy="window+conclusions")
    assert cuts(events)[0]["strategy"] == "window+conclusions"
    assert 'look {"n":1} → n=1, text=hay 1' in cuts(events)[0]["summary"]
    opening = model.requests[-1].messages[0]["content"]
    assert "What earlier rounds came to" in opening[1]["text"] and '{"n":1}' in opening[1]["text"]


def test_window_alone_tells_nothing():
    model = Looking()
    events = run(model, strategy="window")
    assert cuts(events)[0]["strategy"] == "window" and cuts(events)[0]["summary"] == ""
    assert len(model.requests[-1].messages[0]["content"]) == 1 or "earlier rounds" not in str(
        model.requests[-1].messages[0]
    )


def test_a_model_sums_up_what_leaves_and_only_that():
    seen = []
    looking = Looking()

    @handles("summary")
    def policy(view):
        if view.purpose == "summary":
            seen.append([c.input["n"] for c in view.calls("look")])
            return say("The third one\nhad the needle.")
        return looking(view)

    events = run(policy, strategy="window+model")
    first = cuts(events)[0]
    assert first["strategy"] == "window+model" and first["summary"] == "The third one\nhad the needle."
    results = {e.seq: e.payload["output"]["n"] for e in events if e.type == "tool_result" and e.tool_name == "look"}
    gone = [n for seq, n in results.items() if any(a <= seq <= b for a, b in first["dropped"]["seqs"])]
    assert seen[0] == gone
    purposes = [e.payload["purpose"] for e in events if e.type == "model_request"]
    assert purposes.count("summary") == len(cuts(events))


def test_a_model_that_fails_leaves_it_to_the_rule():
    looking = Looking()

    @handles("summary")
    def policy(view):
        if view.purpose == "summary":
            raise ModelError("bad_request", "too long")
        return looking(view)

    events = run(policy, strategy="window+model")
    assert events[-1].payload.get("outcome") == "completed"
    assert 'look {"n":1}' in cuts(events)[0]["summary"]


def test_what_left_the_context_comes_back_by_number_by_words_and_page_by_page():
    looking = Looking({"query": "needle 3"}, {"from_seq": 0}, {"query": "  "}, {"from_seq": "x"}, rounds=8)
    events = run(looking)
    hit, nothing, neither, wrong = [
        e for e in events if e.tool_name == "recall" and e.type in ("tool_result", "tool_error")
    ]
    (found,) = [h for h in hit.payload["output"] if h["type"] == "tool_result"]
    original = next(e for e in events if e.type == "tool_result" and e.payload["output"].get("n") == 3)
    assert found["seq"] == original.seq and "needle 3" in found["excerpt"]
    assert nothing.type == "tool_result"
    assert neither.type == wrong.type == "tool_error" and "query" in neither.payload["message"]
    pages, offset = "", 0
    for _ in range(9):
        looking = Looking({"from_seq": original.seq, "offset": offset}, rounds=8)
        page = next(e for e in run(looking) if e.tool_name == "recall" and e.type == "tool_result").payload["output"]
        pages, offset = pages + page["text"], page.get("next_offset")
        if offset is None:
            break
    assert len(pages) == page["total_chars"] and pages.count("x") >= 30_000


def test_a_shortened_result_says_where_the_rest_is_and_stays_within_its_size():
    for text in ("a" * 5_000, '"\\' * 5_000, "\x01" * 5_000, "日本" * 3_000):
        for cap in (200, 400, 2_000):
            shown = result_text({"output": text}, False, 17, cap)
            assert "recall event 17" in shown
            assert len(json.dumps(shown, ensure_ascii=False)) <= cap + 120
    assert result_text({"output": "short"}, False, 1, 400) == "short"
    assert result_text({"message": "boom"}, True, 2, 0) == "(an error, left out here; recall event 2 to read it again)"
    assert result_text({"output": ""}, False, 1) == "(no output)"
