"""How fast questions over many sessions are answered: a lab of a million events, sealed, and timings on it.

python -m agentlab.bench.analysis [--folder LAB] [--sessions 1000] [--events 1000]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from agentlab.events import GENESIS, Draft, Event, Head, seal
from agentlab.log.store import ParquetStore
from agentlab.query import Query

TOOLS = ("search", "read_file", "edit_file", "run_tests", "query", "fetch", "summarise", "send")
TURNS = 8
"""Turns in one commit of :func:`write_lab`; a harness makes two commits of each turn, which takes longer to write."""
START_US = 1_700_000_000_000_000
QUESTION = (
    "SELECT tool_name, count(*) AS n, quantile_cont(latency_s, 0.5) AS p50, quantile_cont(latency_s, 0.95) AS p95"
    " FROM calls GROUP BY tool_name ORDER BY tool_name"
)
"""The question that the promise is about: p50 and p95 of latency for each tool."""


def turn_drafts(turn: int, rng: random.Random) -> tuple[Draft, ...]:
    """One turn of a plausible session: request, answer, decision, call, result (one in twenty fails)."""
    tool = TOOLS[int(rng.random() ** 2 * len(TOOLS))]
    call_id, request_id, step = f"c{turn}.1", f"r-{turn}", 1 + turn // 10
    digest = f"sha256:{rng.randrange(2000):064x}"
    where: dict[str, Any] = {"step": step, "attempt": 1}
    scratch = 400 + turn % 60 * 180
    tokens = 700 + scratch + rng.randrange(200)
    wait = rng.lognormvariate(0.0, 0.8)
    place: dict[str, Any] = {"tool_name": tool, "input_hash": digest, "call_id": call_id, **where}
    asked = {
        "request_id": request_id,
        "purpose": "act",
        "tokens_estimate": 700 + scratch,
        "digest": "d",
        "layers": {
            "fixed": {"system": "f", "tools": len(TOOLS)},
            "task": {"digest": "t", "anchors": 2},
            "scratch": {"blocks": turn % 60, "tokens": scratch, "dropped": turn // 60 * 30},
        },
    }
    content = [{"type": "text", "text": f"Step {step} needs {tool}; the last result was as expected."}]
    said = {"request_id": request_id, "purpose": "act", "content": content, "stop_reason": "tool_use"}
    answer: dict[str, Any] = {"duration_ms": wait * 900, "input_tokens": tokens, "output_tokens": 40 + turn % 90}
    took = rng.lognormvariate(-1.0 + TOOLS.index(tool) / 3, 1.0) * 1000
    if rng.random() < 0.05:
        failure = {"type": "Timeout", "message": "it took too long"}
        broken = {"call_id": call_id, "tool": tool, "message": "it took too long", "kind": "timeout"}
        result = Draft("tool_error", broken, error=failure, error_type="Timeout", duration_ms=took, **place)
    else:
        output = {"rows": rng.randrange(10_000), "text": "a line of output " * rng.randrange(1, 8)}
        result = Draft("tool_result", {"call_id": call_id, "tool": tool, "output": output}, duration_ms=took, **place)
    return (
        Draft("model_request", asked, model="bench", **where),
        Draft("model_response", {**said, "tool_calls": [call_id]}, model="bench", cost_microusd=tokens * 3, **answer, **where),
        Draft("decision", {"action": tool, "why": "the step needs it", "last_result": "as expected"}, **where),
        Draft("tool_requested", {"call_id": call_id, "tool": tool, "input": {"n": turn}, "effect": "pure"}, **place),
        result,
    )  # fmt: skip


def session_events(session_id: str, count: int, seed: int) -> Iterator[Event]:
    """``count`` events of a session that runs: an opening, then turns."""
    rng = random.Random(seed)
    now = START_US + seed * 60_000_000
    opening = (
        Draft("session_started", {"definition": {"task": "bench", "model": "bench"}, "baseline": {}, "input": {"task": "bench"}}),
        Draft("harness_woken", {"process": {}, "baseline": {}, "reason": "start", "cursor": 0}),
    )  # fmt: skip
    head, made, turn = Head(0, GENESIS), 0, 0
    drafts: Sequence[Draft] = opening
    while made < count:
        for draft in drafts[: count - made]:
            now += 2_000 + round((draft.duration_ms or 0) * 1000)
            (event,) = seal(
                (draft,), head, session_id=session_id, incarnation=1, commit_id=f"k{turn // TURNS}", now_us=now
            )
            head, made = Head(event.seq, event.hash), made + 1
            yield event
        turn += 1
        drafts = turn_drafts(turn, rng)


def write_lab(folder: str | os.PathLike[str], sessions: int = 1000, events: int = 1000) -> ParquetStore:
    """A lab of ``sessions`` sessions with ``events`` events each, committed in lots and sealed as the end of one does.

    A million events take some minutes.
    """
    store = ParquetStore(folder)
    for number in range(sessions):
        session_id = f"bench-{number:04d}"
        log = store.create(session_id, "process")
        for _, lot in groupby(session_events(session_id, events, number), key=lambda event: event.commit_id):
            commit = list(lot)
            log.append(commit, commit[0].seq)
        log.seal()
    return store


def query_seconds(store: ParquetStore, question: str = QUESTION, rounds: int = 5) -> dict[str, float]:
    """Seconds for ``question``: ``first`` with nothing known of the lab, ``again`` the median of later ones."""
    query = Query(store)
    times = []
    for _ in range(rounds + 1):
        begun = time.perf_counter()
        query.sql(question)
        times.append(time.perf_counter() - begun)
    later = sorted(times[1:])
    return {"first": times[0], "again": later[len(later) // 2]}


def main() -> None:
    """Write the lab (or use the one in ``--folder``) and print the seconds of :data:`QUESTION` as JSON."""
    parser = argparse.ArgumentParser(prog="python -m agentlab.bench.analysis", description=__doc__)
    parser.add_argument("--folder", help="where the lab is or goes (default: a temporary folder)")
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--events", type=int, default=1000, help="events of each session")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agentlab-bench-") as passing:
        folder = options.folder or passing
        store = ParquetStore(folder)
        if not store.sessions():
            begun = time.perf_counter()
            store = write_lab(folder, options.sessions, options.events)
            print(json.dumps({"written_s": round(time.perf_counter() - begun, 1)}), flush=True)
        count = int(Query(store).sql("SELECT count(*) AS n FROM events").n[0])
        figures = {name: round(value, 3) for name, value in query_seconds(store).items()}
        print(json.dumps({"events": count, "sessions": len(store.sessions()), "seconds": figures}))


if __name__ == "__main__":
    main()
