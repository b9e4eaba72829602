"""Queries against independent counts over the very same events, and the traps of files, names and times."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest

from agentlab.errors import LogCorrupt, UnknownName, UserError
from agentlab.events import Draft, Event, Head, seal
from agentlab.events.event import GENESIS
from agentlab.lab.costs import crash_costs
from agentlab.log import ParquetStore
from agentlab.log.memory import MemoryStore
from agentlab.query import VIEWS, Query
from tests.query.runs import short
from tests.query.stories import Story

US = 1_000_000


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Query, list[Event]]:
    """One session, half of it sealed, half loose commits."""
    store = ParquetStore(tmp_path_factory.mktemp("lab"))
    story = Story(store, "report-1")
    story.begin_step()
    story.call("clean", 1)
    assert story.log.seal() > 0
    story.end_step()
    full = short(store, "report-2")
    return Query(store), full.events


def rows(frame: pd.DataFrame) -> list[dict]:
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def only(query: Query, view: str) -> list[dict]:
    order = VIEWS[view].order
    return rows(query.sql(f"SELECT * FROM {view} WHERE session_id = 'report-2' ORDER BY {order}"))


def test_events_are_the_log(told: tuple[Query, list[Event]]) -> None:
    query, events = told
    found = only(query, "events")
    assert [(r["seq"], r["type"], r["payload"], r["hash"]) for r in found] == [
        (e.seq, e.type, e.payload_text, e.hash) for e in events
    ]
    assert [round(r["ts"].timestamp() * US) for r in found] == [e.ts for e in events]
    assert not any(r["superseded"] for r in found)


def test_calls_match_requests_with_results(told: tuple[Query, list[Event]]) -> None:
    query, events = told
    asked = {e.call_id: e for e in events if e.type == "tool_requested"}
    ended = {e.call_id: e for e in events if e.type in ("tool_result", "tool_error")}
    found = only(query, "calls")
    assert [r["requested_seq"] for r in found] == [e.seq for e in asked.values()]
    for row in found:
        request, result = asked[row["call_id"]], ended[row["call_id"]]
        assert row["result_seq"] == result.seq
        assert row["ok"] is (result.type == "tool_result")
        assert row["latency_s"] == pytest.approx((result.duration_ms or 0) / 1000)
        assert row["elapsed_s"] == pytest.approx((result.ts - request.ts) / US)
        assert (row["tool_name"], row["effect"]) == (request.payload["tool"], request.payload["effect"])
        assert row["input_hash"] == request.input_hash
        assert row["error_type"] == result.error_type
        assert row["tries"] == 1
    assert sum(r["error_message"] == "ValueError: no" for r in found) == 1


def test_latency_quantiles_per_tool(told: tuple[Query, list[Event]]) -> None:
    query, events = told
    times = defaultdict(list)
    for event in events:
        if event.type in ("tool_result", "tool_error"):
            times[event.tool_name].append((event.duration_ms or 0) / 1000)
    found = query.sql(
        "SELECT tool_name, median(latency_s) AS p50 FROM calls WHERE session_id = ? GROUP BY 1", ["report-2"]
    )
    assert dict(zip(found.tool_name, found.p50, strict=True)) == pytest.approx(
        {tool: statistics.median(values) for tool, values in times.items()}
    )


def test_turns(told: tuple[Query, list[Event]]) -> None:
    query, events = told
    found = only(query, "turns")
    answers = [e for e in events if e.type == "model_response"]
    assert [r["answered_seq"] for r in found] == [e.seq for e in answers]
    assert [r["seq"] for r in found] == [e.parent_seq for e in answers]
    assert [r["input_tokens"] for r in found] == [e.input_tokens for e in answers]
    assert found[-1]["turn"] == sum(e.payload["purpose"] == "act" for e in answers)
    assert {r["purpose"] for r in found} == {"act", "statement"}
    assert all(r["tokens_estimate"] == 500 + r["scratch_tokens"] for r in found)


def test_recoveries_cost_what_the_lab_says(told: tuple[Query, list[Event]]) -> None:
    query, events = told
    costs = crash_costs(events)
    found = only(query, "recoveries")
    assert len(found) == len(costs) == 3
    for row, cost in zip(found, costs, strict=True):
        for name in ("target", "cause", "at_seq", "commands_again", "model_calls", "tokens", "effects_verified"):
            assert row[name] == getattr(cost, name), name
        assert row["seconds"] == pytest.approx(cost.seconds, abs=0.001)
        assert row["lost_steps"] == cost.lost_steps
        assert row["completed"] and row["injected"]
        stages = [row[f"{s}_s"] or 0.0 for s in ("detect", "load", "sandbox", "rebuild", "verify", "statement")]
        assert sum(stages) == pytest.approx(row["seconds"], abs=1e-6)


def test_a_recovery_cut_by_another_death(tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "cut")
    story.call("clean")
    story.crash("harness@commit", cut=True)
    story.crash("harness@wake")
    found = rows(Query(ParquetStore(tmp_path)).sql("SELECT * FROM recoveries ORDER BY seq"))
    assert [r["completed"] for r in found] == [False, True]
    assert found[0]["end_seq"] == found[1]["seq"]
    assert found[0]["statement_s"] is None
    # No second is in two rows: what passed before the next harness was awake is the price of the second death.
    lived = max(e.ts for e in story.events if e.seq <= found[1]["at_seq"])
    assert found[0]["seconds"] == pytest.approx((lived - found[0]["died_at"].timestamp() * US) / US, abs=1e-5)
    assert [cost.seconds for cost in crash_costs(story.events)] == [
        pytest.approx(row["seconds"], abs=0.001) for row in found
    ]
    spent = (story.events[found[1]["end_seq"] - 1].ts - found[0]["died_at"].timestamp() * US) / US
    assert sum(row["seconds"] for row in found) == pytest.approx(spent, abs=0.001)


def test_effects(told: tuple[Query, list[Event]], tmp_path: Path) -> None:
    query, _ = told
    (row,) = only(query, "effects")
    assert (row["state"], row["tries"], row["verified"], row["verified_as"]) == ("completed", 1, 1, "completed")
    story = Story(ParquetStore(tmp_path), "e")
    keys = [
        story.effect("send", i, outcome) for i, outcome in enumerate(("failed", "pending", "in_doubt", "completed"))
    ]
    first = next(e for e in story.events if e.type == "tool_result").seq
    story.call("send", 3, ms=0.0, reused=True, effect_of=first)
    story.add(Draft("effect_settled", {"id": "i1", "key": keys[2], "decision": "skip"}))
    found = {r["effect_key"]: r for r in rows(Query(ParquetStore(tmp_path)).sql("SELECT * FROM effects"))}
    assert [found[k]["state"] for k in keys] == ["failed", "pending", "settled", "completed"]
    assert found[keys[2]]["decision"] == "skip" and found[keys[2]]["in_doubt"]
    assert [found[k]["reused"] for k in keys] == [0, 0, 0, 1]


def test_checkpoints(told: tuple[Query, list[Event]]) -> None:
    query, events = told
    found = only(query, "checkpoints")
    written = [e for e in events if e.type == "checkpoint_written"]
    assert [(r["seq"], r["cursor"]) for r in found] == [(e.seq, e.payload["cursor"]) for e in written]
    assert [r["events_since"] for r in found] == [
        b - a for a, b in zip([0, *(e.seq for e in written)], (e.seq for e in written), strict=False)
    ]
    assert all(r["snapshot_taken"] and r["snapshot_new_bytes"] == 700 for r in found)
    assert [r["loads"] for r in found] == [1, 0, 0, 0, 1]


def test_budget_is_the_fold(told: tuple[Query, list[Event]]) -> None:
    from agentlab.session.fold import fold_all
    from agentlab.session.state import State

    query, events = told
    state = fold_all(State(hash=GENESIS), events)
    found = query.sql("SELECT dimension, arg_max(used, seq) AS used, any_value(\"limit\") AS lim FROM budget"
                      " WHERE session_id = 'report-2' GROUP BY 1")  # fmt: skip
    used = dict(zip(found.dimension, found.used, strict=True))
    for name, amount in state.budget.used.items():
        if name == "cost_microusd":
            assert used["cost_usd"] == pytest.approx(amount / 1e6)
        elif name == "active_ms":
            assert used["active_s"] == pytest.approx(amount / 1000, abs=0.1)
        else:
            assert used[name] == amount, name
    limits = dict(zip(found.dimension, found.lim, strict=True))
    assert limits["cost_usd"] == 0.4 and limits["tool:send"] == 2 and limits["tool_calls"] == 80


def test_budget_limits_can_be_extended(tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "x", limits={"tool_calls": 1})
    story.call("clean")
    grow = {"id": "i1", "dimension": "tool_calls", "limit": 5, "expected_version": 0}
    story.add(Draft("budget_extended", grow), Draft("budget_extended", {**grow, "id": "i2", "limit": 9}))
    story.call("clean")
    found = Query(ParquetStore(tmp_path)).sql(
        "SELECT used, \"limit\" FROM budget WHERE dimension = 'tool_calls' ORDER BY seq"
    )
    assert found.values.tolist() == [[1, 1], [2, 5]]


def test_limits_that_follow_from_other_amounts(tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "d", limits={"tokens": 5000, "wall_s": 60.0, "active_s": 30.0})
    for number in range(3):
        story.call("clean", number)
    found = Query(ParquetStore(tmp_path)).sql(
        'SELECT dimension, max(used) AS used, max("limit") AS l FROM budget GROUP BY 1'
    )
    by = found.set_index("dimension")
    said = [e for e in story.events if e.type == "model_response"]
    assert by.used["tokens"] == sum(e.input_tokens + e.output_tokens + e.cache_read_tokens for e in said)  # type: ignore[operator]
    assert by.used["wall_s"] == pytest.approx((story.events[-1].ts - story.events[0].ts) / 1e6)
    assert by.l["tokens"] == 5000 and by.l["wall_s"] == 60.0 and by.l["active_s"] == 30.0


def test_a_session_that_waits_in_the_queue(tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "q")
    query = Query(ParquetStore(tmp_path))
    for kind, status in (("session_queued", "queued"), ("session_admitted", "running")):
        story.add(Draft(kind, {"pool": "sessions", "place": 1}))
        assert query.sql("SELECT status FROM sessions").status[0] == status


def test_decisions_guard_sessions(told: tuple[Query, list[Event]]) -> None:
    query, events = told
    assert [r["action"] for r in only(query, "decisions")] == [
        e.payload["action"] for e in events if e.type == "decision"
    ]
    (verdict,) = only(query, "guard")
    assert (verdict["rule"], json.loads(verdict["evidence"])) == ("same_call", [70, 75])
    (row,) = only(query, "sessions")
    assert (row["task"], row["model"], row["status"], row["outcome"]) == (
        "report", "scripted:story", "ended", "completed",
    )  # fmt: skip
    assert row["events"] == len(events) and row["crashes"] == 2 and row["sandbox_losses"] == 1
    assert row["tokens"] == sum((e.input_tokens or 0) + (e.output_tokens or 0) for e in events)
    assert row["cost_usd"] == pytest.approx(sum(e.cost_microusd or 0 for e in events) / 1e6)


def test_a_running_session_is_there_up_to_its_newest_commit(tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "r")
    query = Query(ParquetStore(tmp_path))
    assert query.sql("SELECT max(seq) AS n FROM events").n[0] == 3
    story.ask(answered=False)
    assert query.sql("SELECT max(seq) AS n FROM events").n[0] == 4
    (row,) = rows(query.sql("SELECT * FROM turns"))
    assert (row["ok"], row["at_risk"], row["latency_s"]) == (None, False, None)
    assert query.sql("SELECT status FROM sessions").status[0] == "running"
    assert query.sql("SELECT count(elapsed_s) AS n FROM effects").n[0] == 0
    story.effect("send", outcome="pending")
    assert query.sql("SELECT elapsed_s FROM effects").elapsed_s.isna().all(), "what has no end took no time yet"
    assert query.sql("SELECT elapsed_s FROM calls").elapsed_s.isna().all()
    story.crash(cut=True)
    assert query.sql("SELECT seconds FROM recoveries").seconds.isna().all()
    story.crash()
    assert query.sql("SELECT at_risk FROM turns ORDER BY seq").at_risk[0]
    story.add(Draft("session_paused", {"reason": "budget"}))
    assert query.sql("SELECT status, reason FROM sessions").values.tolist() == [["paused", "budget"]]


@pytest.mark.parametrize("view", VIEWS)
def test_an_empty_lab_has_every_column_and_type(view: str, tmp_path: Path, told: tuple[Query, list[Event]]) -> None:
    empty = Query(ParquetStore(tmp_path / "nothing"))
    frame = empty.sql(f"SELECT * FROM {view}")
    full = told[0].sql(f"SELECT * FROM {view}")
    assert len(frame) == 0 and list(frame.columns) == VIEWS[view].names
    assert frame.dtypes.tolist() == full.dtypes.tolist()
    assert empty.view(view).schema == told[0].view(view).schema


@pytest.mark.parametrize(
    "session_id",
    ["00123", "2024-01-01", "inf", "it's \"quoted\"", "a/b", "ü—日本", "x=1", "%41", "NULL", " 5", "a\x00b", "CON"],
)  # fmt: skip
def test_session_ids_stay_what_they_are(session_id: str, tmp_path: Path) -> None:
    folder = tmp_path / "lab [1]'*?"
    store = ParquetStore(folder)
    story = Story(store, session_id)
    story.call("clean")
    story.log.seal()
    story.call("clean")
    found = Query(store).sql("SELECT DISTINCT session_id, count(*) AS n FROM events GROUP BY 1")
    assert found.session_id.tolist() == [session_id] and found.n[0] == len(story.events)
    assert Query(store).sql("SELECT count(*) AS n FROM calls WHERE session_id = ?", [session_id]).n[0] == 2


def test_times_are_utc_wherever_one_sits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/St_Johns")
    time.tzset()
    try:
        story = Story(ParquetStore(tmp_path), "t")
        found = Query(ParquetStore(tmp_path)).sql(
            "SELECT ts, ts::DATE::VARCHAR AS day, current_setting('TimeZone') AS zone FROM events ORDER BY seq"
        )
        assert str(found.ts.dt.tz) == "UTC" and found.ts.dtype == "datetime64[us, UTC]"
        assert found.ts[0] == pd.Timestamp(story.events[0].ts, unit="us", tz="UTC")
        assert found.day[0] == "2023-11-14" and found.zone[0] in ("UTC", "Etc/UTC")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_hostile_payloads(tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "h")
    texts = ["a\udcff\udcfe", "\\ud800", "nul \x00 here", "😀", "\ud83d", '"', "\\" * 3 + "\udc80"]
    for text in texts:
        story.add(Draft("decision", {"action": text, "why": "w", "n": 10**40}))
    found = Query(ParquetStore(tmp_path)).sql("SELECT action, why FROM decisions ORDER BY seq")
    assert set(found.why) == {"w"}
    assert found.action.tolist()[1:4] == ["\\ud800", "nul \x00 here", "😀"]
    assert found.action[0] == "a\ufffd" and found.action[6] == "\\\\\\\ufffd"
    big = Query(ParquetStore(tmp_path)).sql("SELECT _int(payload, '$.n') AS n FROM events WHERE type = 'decision'")
    assert big.n.isna().all()


def test_columns_that_utf8_can_not_carry(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path)
    for name in ("odd\udcff", "plain"):
        story = Story(store, name)
        if name != "plain":
            story.call("clean")
        if name == "plain":
            odd = {"call_id": "c\ud800", "tool": "clean", "input": {}, "effect": "pure"}
            story.add(Draft("tool_requested", odd, tool_name="clean", call_id="c\ud800"))
            story.call("load")
            story.log.seal()
    found = Query(store).sql("SELECT session_id, call_id, tool_name FROM calls ORDER BY session_id, requested_seq")
    assert found.values.tolist() == [
        ["odd\\udcff", "c4.1", "clean"], ["plain", "c\\ud800", "clean"], ["plain", "c5.1", "load"],
    ]  # fmt: skip
    assert Query(store, ["odd\udcff"]).sql("SELECT count(*) AS n FROM sessions").n[0] == 1


def test_superseded_rows_stay_with_a_flag(tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "s")
    first = story.call("clean", 1)
    mark = story.checkpoint()
    second = story.call("clean", 2)
    last = story.head.seq
    back = {
        "checkpoint_seq": mark,
        "cursor": mark - 1,
        "superseded_from": mark + 1,
        "superseded_to": last,
        "reason": "r",
    }
    query = Query(ParquetStore(tmp_path))
    assert not query.sql("SELECT bool_or(superseded) AS s FROM events").s[0]
    story.add(Draft("restored_to", back))
    found = query.sql("SELECT seq, superseded FROM events")
    assert found[found.superseded].seq.tolist() == list(range(mark + 1, last + 1))
    calls = query.sql("SELECT call_id, superseded FROM calls ORDER BY requested_seq").values.tolist()
    assert calls == [[first, False], [second, True]]


def test_temporary_and_foreign_files_are_not_read(tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "j")
    commits = Path(story.log.folder, "commits")
    whole = next(commits.glob("*.parquet")).read_bytes()
    (commits / "000000000099.parquet.123.tmp").write_bytes(whole[: len(whole) // 2])
    (commits / "notes.parquet").write_bytes(b"hello")
    (commits / ".hidden.parquet").write_bytes(b"")
    assert Query(ParquetStore(tmp_path)).sql("SELECT count(*) AS n FROM events").n[0] == len(story.events)


@pytest.mark.parametrize("damage", ["junk", "cut", "empty", "foreign"])
def test_a_broken_file_is_named(damage: str, tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "b")
    path = Path(story.log.folder, "commits", "000000000002.parquet")
    whole = path.read_bytes()
    if damage == "foreign":
        pd.DataFrame({"a": [1]}).to_parquet(path)
    else:
        path.write_bytes({"junk": b"junk" * 100, "cut": whole[:-9], "empty": b""}[damage])
    with pytest.raises(LogCorrupt, match="000000000002.parquet"):
        Query(ParquetStore(tmp_path)).sql("SELECT count(*) FROM events")


def test_a_damaged_page_is_named(tmp_path: Path) -> None:
    story = Story(ParquetStore(tmp_path), "b")
    for number in range(30):
        story.call("clean", number)
    story.log.seal()
    path = Path(story.log.folder, "segments", "000000000001.parquet")
    data = bytearray(path.read_bytes())
    data[40 : len(data) // 2] = bytes(len(data) // 2 - 40)
    path.write_bytes(data)
    with pytest.raises(LogCorrupt, match="000000000001.parquet"):
        Query(ParquetStore(tmp_path)).sql("SELECT * FROM events")


@pytest.mark.parametrize("damage", ["cut", "page"])
def test_a_damaged_session_is_left_out_and_named_until_it_is_whole_again(damage: str, tmp_path: Path) -> None:
    from agentlab.query import DamagedSession

    store = ParquetStore(tmp_path)
    whole, broken = Story(store, "whole"), Story(store, "broken_1")
    for number in range(30):
        broken.call("clean", number)
    broken.log.seal()
    path = Path(broken.log.folder, "segments", "000000000001.parquet")
    kept = path.read_bytes()
    junk = bytearray(kept)
    junk[40 : len(junk) // 2] = bytes(len(junk) // 2 - 40)
    path.write_bytes(kept[: len(kept) // 2] if damage == "cut" else bytes(junk))
    query = Query(store)
    for _ in range(2):  # named at every question
        with pytest.warns(DamagedSession, match=r"session broken_1 .*000000000001\.parquet") as caught:
            assert set(query.sql("SELECT * FROM events").session_id) == {"whole"}
        assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]
        assert list(query.damaged) == ["broken_1"]
    with pytest.raises(LogCorrupt, match="000000000001.parquet"):
        Query(store, ["broken_1"]).sql("SELECT * FROM events")
    path.write_bytes(kept)
    found = query.sql("SELECT session_id FROM events").session_id.tolist()
    assert found.count("broken_1") == len(broken.events) and found.count("whole") == len(whole.events)
    assert not query.damaged


def test_many_damaged_sessions_are_left_out_together(tmp_path: Path) -> None:
    from agentlab.query import DamagedSession

    store = ParquetStore(tmp_path)
    Story(store, "whole")
    for index in range(12):
        story = Story(store, f"broken-{index}")
        for number in range(30):
            story.call("clean", number)
        story.log.seal()
        path = Path(story.log.folder, "segments", "000000000001.parquet")
        data = bytearray(path.read_bytes())
        data[40 : len(data) // 2] = bytes(len(data) // 2 - 40)
        path.write_bytes(data)
    with pytest.warns(DamagedSession) as caught:
        assert set(Query(store).sql("SELECT * FROM events").session_id) == {"whole"}
    assert len(caught) == 12


def test_what_is_no_query_is_refused_with_words(told: tuple[Query, list[Event]]) -> None:
    with pytest.raises(UserError, match="a text in SQL"):
        told[0].sql(None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"\['report'\]"):
        told[0].sql("SELECT * FROM sessions WHERE task = ?", "report")
    with pytest.raises(UserError, match="The views are events, turns, calls"):
        told[0].sql("SELECT * FROM evnts")


def test_files_that_vanish_are_listed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(ParquetStore(tmp_path), "v")
    for number in range(10):
        story.call("clean", number)
    query = Query(ParquetStore(tmp_path))
    answer, sealed = Query._answer, []

    def late(self: Query, *args: object) -> object:
        if not sealed:
            sealed.append(story.log.seal())
        return answer(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Query, "_answer", late)
    assert query.sql("SELECT count(*) AS n FROM events").n[0] == len(story.events)
    assert sealed[0] > 0


def test_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentlab.query import loose

    read: list[str] = []
    plain = loose.decode
    monkeypatch.setattr(loose, "decode", lambda path: (read.append(Path(path).name), plain(path))[1])
    story = Story(ParquetStore(tmp_path), "n")
    query = Query(ParquetStore(tmp_path))
    for number in range(20):
        story.call("clean", number)
        del read[:]
        assert query.sql("SELECT count(*) AS n FROM events").n[0] == len(story.events)
    assert read == [
        f"{seq:012d}.parquet" for seq in range(story.head.seq - 4, story.head.seq + 1) if seq != story.head.seq - 1
    ]
    story.log.seal()
    story.call("clean", 20)
    assert query.sql("SELECT count(*) AS n FROM events").n[0] == len(story.events)


def test_a_session_begun_anew_is_another(tmp_path: Path) -> None:
    import shutil

    query = Query(ParquetStore(tmp_path))
    for sealed in (False, True, False):
        story = Story(ParquetStore(tmp_path), "again")
        story.call("clean")
        if sealed:
            last = story.head.seq
            back = {"checkpoint_seq": 1, "cursor": 1, "superseded_from": 2, "superseded_to": last, "reason": "r"}
            story.add(Draft("restored_to", back))
            story.log.seal()
        found = query.sql("SELECT count(*) AS n, sum(superseded::INT) AS s FROM events")
        assert found.n[0] == len(story.events) and bool(found.s[0]) == sealed
        shutil.rmtree(story.log.folder)


def test_wrong_sql_is_a_user_error(tmp_path: Path) -> None:
    Story(ParquetStore(tmp_path), "u")
    query = Query(ParquetStore(tmp_path))
    for text in ("SELEC 1", "SELECT * FROM nowhere", "SELECT wrong FROM events", "SELECT payload::INT FROM events"):
        with pytest.raises(UserError, match="can not be answered"):
            query.sql(text)
    with pytest.raises(UnknownName, match="calls"):
        query.view("call")
    with pytest.raises(UnknownName):
        Query(ParquetStore(tmp_path), ["nobody"]).sql("SELECT 1")
    frame = pd.DataFrame({"a": [1]})
    with pytest.raises(UserError):  # a variable of the caller is no table
        query.sql("SELECT * FROM frame")
    assert len(frame) == 1


def test_parameters_and_own_tables(tmp_path: Path) -> None:
    Story(ParquetStore(tmp_path), "p")
    query = Query(ParquetStore(tmp_path))
    assert query.sql("SELECT count(*) AS n FROM events WHERE type = $t", {"t": "harness_woken"}).n[0] == 1
    assert query.sql("SELECT 1 AS a, 2.5 AS b, 'x' AS c, true AS d").dtypes.astype(str).tolist() == [
        "Int64", "float64", "string", "boolean",
    ]  # fmt: skip
    assert query.sql("SELECT sum(seq) AS s FROM events").s[0] == 6


def test_threads_do_not_meet(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    stories = [Story(ParquetStore(tmp_path), f"s{i}") for i in range(4)]
    query = Query(ParquetStore(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: int(query.sql("SELECT count(*) AS n FROM events").n[0]), range(16)))
    assert set(counts) == {sum(len(s.events) for s in stories)}


def test_a_memory_store_answers_too(tmp_path: Path) -> None:
    story = short(ParquetStore(tmp_path), "m")
    memory = MemoryStore()
    log = memory.create("m", "process")
    again = seal(
        [Draft(e.type, e.payload, call_id=e.call_id, tool_name=e.tool_name) for e in story.events],
        Head(0, GENESIS), session_id="m", incarnation=0, commit_id="k", now_us=1,
    )  # fmt: skip
    log.append(again, 1)
    found = Query(memory).sql("SELECT count(*) AS n FROM calls").n[0]
    assert found == Query(ParquetStore(tmp_path)).sql("SELECT count(*) AS n FROM calls").n[0]


def test_every_view_says_what_its_columns_are(told: tuple[Query, list[Event]]) -> None:
    table = told[0].views()
    assert set(table.view) == set(VIEWS) and table.meaning.str.len().min() >= 3
    for name, view in VIEWS.items():
        assert told[0].sql(f"SELECT * FROM {name} LIMIT 1").columns.tolist() == view.names
        assert view.meaning


def test_importing_it_loads_no_heavy_library() -> None:
    import subprocess
    import sys

    code = "import sys, agentlab.query, agentlab.analysis; print([m for m in ('duckdb','pandas','matplotlib') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert out.stdout.strip() == "[]", out.stderr
