"""Every pair that a good guard tells apart, by name: what must be halted and the twin that must go on."""

from __future__ import annotations

from typing import Any

import pytest

from agentlab.guard import Action, Finding, GuardPolicy, findings

N = 10


def ok(tool: str, value: Any, result: str = "", **more: Any) -> Action:
    return Action(tool, value, "ok", result, **more)


def err(tool: str, value: Any, message: str, kind: str | None = None) -> Action:
    return Action(tool, value, "error", "", kind, message)


def run(actions: list[Action]) -> list[Finding]:
    from dataclasses import replace

    return findings([replace(a, seq=i) for i, a in enumerate(actions, 1)])


def shuffled(i: int) -> dict[str, Any]:
    pairs = [("a", 1), ("b", {"x": 1, "y": 2}), ("c", 3)]
    return dict(pairs[i % 3 :] + pairs[: i % 3])


def cycle(period: int, rounds: int = 4, news: bool = False) -> list[Action]:
    return [
        ok("read", {"path": f"file_{i}"}, f"content {i}" + (f" version {r}" if news else ""))
        for r in range(rounds if period > 2 else rounds + 1)
        for i in range(period)
    ]


STOP: dict[str, list[Action]] = {
    "the answer to every page is the same but for the page's number": [
        ok("search", {"query": "invoice", "page": i}, f"page {i}: " + "see the archive for older entries. " * 6)
        for i in range(11, 30)
    ],
    "same call, same result": [ok("bash", {"command": "ls"}, "a\nb")] * N,
    "same call, the model's words change (thought)": [
        ok("bash", {"command": "ls"}, "a\nb", thought=f"attempt {i}") for i in range(N)
    ],
    "same call, the model's words change (argument)": [
        ok("bash", {"command": "ls", "description": f"look again {i}"}, "a\nb") for i in range(N)
    ],
    "output differs only in times": [ok("health", {}, f"2024-01-01 12:00:{i:02d} down, took {i}.2s") for i in range(N)],
    "output differs only in pids": [ok("health", {}, f"server (pid {4000 + 7 * i}) down") for i in range(N)],
    "output differs only in line numbers": [
        ok("lint", {}, f"app.py:{10 + i}: undefined name, see line {3 * i}") for i in range(N)
    ],
    "output differs only in named numbers of JSON": [
        ok("health", {}, f'{{"ts": 17000000{i:02d}, "pid": {i + 77}, "line": {i}, "msg": "down"}}') for i in range(N)
    ],
    "same class of error, jittered arguments": [
        err("read", {"path": f"/data/x{i}.csv"}, f"No such file: /data/x{i}.csv", "FileNotFoundError") for i in range(N)
    ],
    "same class of error in a shell": [
        Action(
            "bash", {"command": f"cat d{i}/f"}, "error", f"cat: d{i}/f: No such file or directory", None, "exit code 1"
        )
        for i in range(N)
    ],
    **{f"cycle of {p}": cycle(p) for p in range(2, 9)},
    "stuck call, different fillers": [
        a
        for i in range(8)
        for a in (ok("search", {"q": "loader"}, "config.py"), ok("read", {"path": f"f{i}"}, f"text {i}"))
    ],
    "stuck failure, different changes between": [
        a
        for i in range(N)
        for a in (ok("edit", {"path": f"f{i}", "new": str(i)}, "updated"), err("bash", {"command": "make"}, "no rule"))
    ],
    "same failing call": [err("mail", {"to": "a"}, "unknown sender")] * N,
    "argument keys in another order": [ok("view", shuffled(i), "text") for i in range(N)],
    "empty results under changing queries": [ok("search", {"q": f"word{i} thing"}, "[]") for i in range(14)],
    "like calls, no new information": [
        ok("search", {"q": q, "limit": i}, "1. guide\n2. issues\n3. forum\n4. blog")
        for i, q in enumerate(
            ["plugin error fix", "fix plugin error", "error plugin", "plugin error", "plugin fix"] * 2
        )
    ],
    "poll that has ended": [ok("job_status", {"id": 1}, "failed: out of memory")] * N,
    "end of the page": [
        ok("scroll", {"direction": "down"}, "Imprint. Privacy. Terms of use. Contact the editors here.")
    ]
    * N,
}

GO_ON: dict[str, list[Action]] = {
    "pages of one layout whose numbers hold the page's own": [
        ok("page", {"number": i}, f"page={i}, total={1000 + i}, lines=" + f"booking {i:03d} posted; " * 60)
        for i in range(1, 31)
    ],
    "polling whose result changes": [ok("job_status", {"id": 1}, f"{37 + 4 * i}%") for i in range(N)],
    "polling whose count falls": [ok("queue", {}, f'{{"left": {100 - i}}}') for i in range(N)],
    "running, several times, then done": [ok("job_status", {"id": 1}, "running")] * N
    + [ok("job_status", {"id": 1}, "done")],
    "running, as JSON": [ok("job", {"id": 1}, '{"state":"RUNNING","error":null}')] * N + [ok("job", {"id": 1}, "done")],
    "sleep, then look": [
        a for _ in range(N) for a in (ok("bash", {"command": "sleep 9"}), ok("bash", {"command": "ls out"}, "part"))
    ],
    "stateful read whose result changes": [
        ok("task_list", {}, f"last touched 12:00:{i:02d}", stateful_read=True) for i in range(N)
    ],
    "edit, then test: failures differ": [
        a
        for i in range(N)
        for a in (
            ok("edit", {"path": "a.py", "new": f"x{i}"}, "updated"),
            err("bash", {"command": "pytest"}, f"Exit code 1\nFAILED test_{i} - AssertionError: {i} != 3"),
        )
    ],
    "same tool, many files": [ok("read", {"path": f"src/m{i}.py"}, f"class M{i}") for i in range(N)],
    "same tool, many files, one answer": [ok("move", {"from": f"a/{i}", "to": f"b/{i}"}, "moved") for i in range(N)],
    "same check, many files": [ok("bash", {"command": f"python -m py_compile m{i}.py"}) for i in range(N)],
    "empty waits": [ok("bash", {"command": ""})] * N,
    "empty waits with a remark": [ok("shell", {"chars": ""}, "[no new output after 10 seconds]")] * N,
    "wait tool": [ok("wait", {"seconds": 10})] * N,
    "timeouts, then success": [err("fetch", {"url": "u"}, "timed out", "Timeout")] * 5
    + [ok("fetch", {"url": "u"}, "x")],
    "longer timeouts, then success": [
        *(err("fetch", {"url": "u", "timeout": 10 * i}, "timed out", "Timeout") for i in range(1, 6)),
        ok("fetch", {"url": "u", "timeout": 90}, "x"),
    ],
    "scrolling new pages": [ok("scroll", {"direction": "down"}, f"page {i} of 40") for i in range(N)],
    "scrolling new lines": [
        ok("scroll", {}, "\n".join(f"line {20 * i + j}: text" for j in range(20))) for i in range(N)
    ],
    "scrolling seen on a screen": [ok("computer", {"action": "scroll", "amount": 3})] * N,
    "log that reports how far it got": [
        ok("bash", {"command": "tail -1 log"}, f"12:00:{i:02d} processed line {317 * i}") for i in range(N)
    ],
    **{f"round of {p} with news": cycle(p, news=True) for p in (2, 3, 5, 8)},
    "each change, then a check that succeeds": [
        a
        for i in range(N)
        for a in (ok("edit", {"path": f"f{i}", "new": "x"}, "updated"), ok("bash", {"command": "make"}, "ok"))
    ],
    "same command between changes, results differ": [
        a
        for i in range(15)
        for a in (
            ok("bash", {"command": f"sed -i s/a/b{i}/ m.py"}),
            ok("bash", {"command": "python m.py"}, f"value {i}"),
        )
    ],
    "thinking aloud": [ok("think", {"thought": f"idea {i} about part {i}"}, "noted") for i in range(N)],
}


@pytest.mark.parametrize("name", STOP)
def test_stuck_runs_are_nudged_and_then_halted(name: str) -> None:
    verdicts = run(STOP[name])
    assert [f.action for f in verdicts] == ["nudge", "pause"], verdicts
    for finding in verdicts:
        assert len(finding.evidence) >= 3 and list(finding.evidence) == sorted(finding.evidence)
        assert finding.at <= len(STOP[name])


@pytest.mark.parametrize("name", GO_ON)
def test_sound_runs_are_left_alone(name: str) -> None:
    assert run(GO_ON[name]) == []


def test_the_same_loops_stop_when_the_policy_says_so() -> None:
    from dataclasses import replace

    actions = [replace(a, seq=i) for i, a in enumerate(STOP["same failing call"], 1)]
    assert [f.action for f in findings(actions, GuardPolicy(final="stop"))] == ["nudge", "stop"]
