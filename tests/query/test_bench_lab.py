"""The lab of the timings: sealed by the real sealing, and the answer to its question is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from agentlab.bench.analysis import QUESTION, query_seconds, write_lab
from agentlab.query import Query


def test_the_question_of_the_timings(tmp_path: Path) -> None:
    store = write_lab(tmp_path, sessions=3, events=203)
    latencies: dict[str, list[float]] = {}
    for session_id in store.sessions():
        log = store.open(session_id)
        assert [Path(path).parent.name for path, _ in log.commit_files()] == ["segments"] and log.head().seq == 203
        for event in log.replay():
            if event.type in ("tool_result", "tool_error"):
                latencies.setdefault(str(event.tool_name), []).append((event.duration_ms or 0.0) / 1000)
    found = Query(store).sql(QUESTION).set_index("tool_name")
    assert found.n.to_dict() == {tool: len(values) for tool, values in latencies.items()}
    for tool, values in latencies.items():
        assert np.allclose(found.loc[tool, ["p50", "p95"]].astype(float), np.quantile(values, [0.5, 0.95]))
    assert set(query_seconds(store, rounds=1)) == {"first", "again"}
