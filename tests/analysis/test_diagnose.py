"""Each symptom, planted and found with its evidence; and what the log can not tell is said to be unknown."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentlab import analysis
from agentlab.analysis.symptoms.checkpoints import frequent_checkpoints
from agentlab.events import Draft
from agentlab.log import ParquetStore
from tests.query.runs import short
from tests.query.stories import Story


class _Session:
    def __init__(self, store: ParquetStore, session_id: str) -> None:
        self.id, self.lab = session_id, SimpleNamespace(store=store)


@pytest.fixture
def store(tmp_path: Path) -> ParquetStore:
    return ParquetStore(tmp_path)


def test_a_sound_run(store: ParquetStore) -> None:
    story = Story(store, "a")
    for number in range(4):
        story.call("clean", number)
    story.effect("send")
    story.end()
    found = analysis.diagnose(store)
    assert found.found == ()
    assert found["drift"].verdict == found["amnesia"].verdict == found["crowding"].verdict == "unknown"
    assert found["repetition"].verdict == found["doubled_effects"].verdict == "clear"
    assert "too few rounds" in found["drift"].missing


def test_repetition_and_guard(store: ParquetStore) -> None:
    short(store, "a")
    symptom = analysis.diagnose(store)["repetition"]
    asked = [r.requested_seq for r in analysis.calls(store).itertuples() if r.tool_name == "check"]
    assert symptom.evidence[0].seqs == tuple(asked) and "3 times" in symptom.evidence[0].what
    assert "same_call" in symptom.evidence[1].what


def test_effects_that_may_have_happened_twice(store: ParquetStore) -> None:
    story = Story(store, "a")
    story.effect("send", 1)
    story.effect("send", 1)
    assert "2 times" in analysis.diagnose(store)["doubled_effects"].evidence[0].what
    other = Story(store, "b")
    other.effect("send", 2, "in_doubt")
    assert any("in doubt" in e.what for e in analysis.diagnose(store)["doubled_effects"].evidence)
    blind = Story(store, "c")
    key = blind.effect("send", 3, "pending")
    common, place = blind.pending
    blind.add(Draft("effect_pending", {**common, "input_hash": "x", "try": 2}, **place))
    (said,) = [e for e in analysis.diagnose(store)["doubled_effects"].evidence if e.session_id == "c"]
    assert "never verified" in said.what and key.endswith(str(said.seqs[0] - 1))


def test_drift(store: ParquetStore) -> None:
    story = Story(store, "a")
    story.add(Draft("drift_measured", {"distance": 0.2, "threshold": 0.5, "restated": False}))
    assert analysis.diagnose(store)["drift"].verdict == "clear"
    (event,) = story.add(Draft("drift_measured", {"distance": 0.8, "threshold": 0.5, "restated": True}))
    assert analysis.diagnose(store)["drift"].evidence[0].seqs == (event.seq,)


def test_calls_without_limit(store: ParquetStore) -> None:
    story = Story(store, "a", limits={"input_tokens": 10_000, "tool_calls": 2})
    for number in range(3):
        story.call("fetch", number)
    (said,) = analysis.diagnose(store)["unlimited_calls"].evidence
    assert said.what == "tool_calls went over its limit here while tokens stayed under theirs"
    assert said.seqs == (story.head.seq,)


def test_amnesia_and_pasted_history(store: ParquetStore) -> None:
    story = Story(store, "a")
    for number in range(5):
        story.call("search", number)
    story.crash()
    story.add(Draft("statement_checked", {"passed": False, "corrections": ["x"]}))
    story.call("clean", 1)
    found = analysis.diagnose(store)
    assert "did not agree" in found["amnesia"].evidence[0].what
    assert "held 540 estimated tokens before the death and 600 after" in found["stuffed_history"].evidence[0].what


def test_budget(store: ParquetStore) -> None:
    story = Story(store, "a", limits={"input_tokens": 1000})
    for number in range(3):
        story.call("clean", number)
        story.ask(tokens=4000)
    story.add(Draft("session_paused", {"reason": "budget", "detail": "input_tokens"}))
    found = analysis.diagnose(store)
    assert found["budget_trips"].evidence[0].what.startswith("input_tokens tripped once; the model read 2.4")
    assert "over its limit" in found["budget_trips"].evidence[1].what
    assert found["estimates_off"].verdict == "found"


def test_sessions_that_slow_each_other(store: ParquetStore) -> None:
    crowd = [Story(store, f"s{i}") for i in range(3)]
    for story in crowd:
        for number in range(6):
            story.call("fetch", number, ms=3000.0)
    assert analysis.diagnose(store)["crowding"].verdict == "unknown"
    alone = Story(store, "z", start_us=max(s.now_us for s in crowd) + 1_000_000)
    for number in range(12):
        alone.call("fetch", number, ms=100.0)
    symptom = analysis.diagnose(store)["crowding"]
    assert symptom.verdict == "found" and "3 s beside other sessions, 0.1 s alone" in symptom.evidence[0].what


def test_sessions_that_wait_for_each_other(store: ParquetStore) -> None:
    story = Story(store, "a")
    (queued,) = story.add(Draft("session_queued", {"pool": "sessions", "place": 2}))
    story.add(Draft("session_admitted", {"pool": "sessions", "place": 2}), after_ms=30_000.0)
    story.call("fetch", ms=1000.0)
    symptom = analysis.diagnose(store)["crowding"]
    assert symptom.verdict == "found" and symptom.evidence[0].seqs == (queued.seq,)
    assert symptom.evidence[0].what.startswith("waited 30 s of 3")


def test_checkpoints_too_frequent(store: ParquetStore) -> None:
    dear, cheap = Story(store, "dear"), Story(store, "cheap")
    for story, cost in ((dear, 400.0), (cheap, 2.0)):
        for number in range(12):
            story.call("fetch", number, ms=1000.0)
            story.checkpoint("every call", ms=cost)
    symptom = frequent_checkpoints(analysis.analysed(store))
    (said,) = symptom.evidence
    assert said.session_id == "dear" and len(said.seqs) == 12 and "0.4 s each" in said.what
    assert frequent_checkpoints(analysis.analysed(_Session(store, "cheap"))).verdict == "clear"
    for _ in range(40):  # with deaths this often the same checkpoints are worth it
        dear.crash()
    assert frequent_checkpoints(analysis.analysed(store)).verdict == "clear"
    few = Story(store, "few")
    few.checkpoint()
    assert frequent_checkpoints(analysis.analysed(_Session(store, "few"))).verdict == "unknown"


def test_a_tool_that_fails(store: ParquetStore) -> None:
    story = Story(store, "a")
    for number in range(4):
        story.call("fetch", number, error="Timeout" if number else None)
    assert "fetch failed 3 of 4 times, mostly Timeout" in analysis.diagnose(store)["failing_tool"].evidence[0].what


def test_what_it_shows(store: ParquetStore) -> None:
    story = Story(store, "<script>alert(1)</script>")
    for _ in range(4):
        story.call("<b>", "same")
    found = analysis.diagnose(store)
    assert str(found) == repr(found)
    assert "[!!] The same action again and again: found" in str(found)
    assert "<script>" not in found._repr_html_() and "&lt;script&gt;" in found._repr_html_()
    assert found.to_json()["symptoms"][0]["name"] == "repetition"
    assert analysis.diagnose([], lab=store).symptoms == ()


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.alts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links += [found[name] or "" for name in ("src", "href") if name in found]
        if tag == "img":
            self.alts.append(found["alt"] or "")


def test_the_report_needs_nothing_else(store: ParquetStore, tmp_path: Path) -> None:
    story = short(store, "a")
    made = analysis.report(store, tmp_path / "report.html", title="May <1>")
    text = Path(made).read_text(encoding="utf-8")
    assert text == analysis.page(store, title="May <1>")
    page = _Page()
    page.feed(text)
    assert len(page.alts) == 8 and all(page.alts)
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert "May &lt;1&gt;" in text and f"{len(story.events):,} events" in text
    assert "no session" in analysis.page([], lab=store)
