"""Pairs of sequences that a good guard tells apart, with generated variations: stuck and sound in equal number.

Every stuck kind has a sound twin of the same look and the same range of lengths, so that no threshold alone
separates them. :data:`PAIRS` names the twins.
"""

from __future__ import annotations

import json

from agentlab.guard.case import Case, Tape, Template, generate

_NAMES = ("alpha", "bravo", "delta", "gamma", "kilo", "lima", "metro", "nova", "omega", "sigma", "tango", "zulu")


def _around(t: Tape, n: int) -> None:
    for _ in range(n):
        k = t.fresh()
        match t.number(0, 4):
            case 0:
                t.call(
                    "read_file", {"path": f"src/{t.one(*_NAMES)}_{k}.py"}, f"import m{k}\n\ndef f{k}():\n    return {k}"
                )
            case 1:
                t.call("edit_file", {"path": f"src/e{k}.py", "old": f"a{k}", "new": f"b{k}"}, f"updated src/e{k}.py")
            case 2:
                t.call("bash", {"command": f"grep -n f{k} -r src"}, f"src/x.py:{k}: f{k}()")
            case 3:
                t.call("bash", {"command": f"python scripts/s{k}.py"}, f"value {k}")
            case _:
                t.call("search", {"query": f"{t.one(*_NAMES)} {k} usage"}, f"{k} ways to use it")


# --- the same call: with one result, or with changing ones ----------------------------------------------------------


def same_call(t: Tape, n: int) -> None:
    tool, value, result = t.one(
        ("bash", {"command": "ls src"}, "a.py\nb.py"),
        ("read_file", {"path": "README.md"}, "# Title\nSome text"),
        ("search", {"query": "parser bug"}, "1 result: parser.py"),
        ("get_order", {"order_id": 4711}, '{"state":"shipped"}'),
    )
    for _ in range(n):
        t.call(tool, dict(value), result)


def polling_changes(t: Tape, n: int) -> None:
    shape = t.number(0, 2)
    done = 0
    for _ in range(n):
        done += t.number(1, 6)
        text = (f"progress {done}%", json.dumps({"processed": done * 17}), f"{done * 3} of 400 rows loaded")[shape]
        t.call(t.one("job_status"), {"job": "j-1"}, text)
    t.call("job_status", {"job": "j-1"}, "done")


def words_change(t: Tape, n: int) -> None:
    field = t.one("thought", "description", "reason", "explanation", "justification")
    for _ in range(n):
        t.call(
            "bash",
            {"command": "git status", field: f"{t.one(*_NAMES)} {t.number()}"},
            "On branch main\nnothing to commit",
        )


def wait_then_done(t: Tape, n: int) -> None:
    said = t.one(
        "running", "status: pending", '{"state":"IN_PROGRESS"}', "build is queued", "not ready yet", "still compiling"
    )
    for _ in range(n):
        t.call("check_build", {"id": 12}, said)
    t.call("check_build", {"id": 12}, "done: artifact app.tar")


def noise_only(t: Tape, n: int) -> None:
    shape = t.number(0, 4)
    for _ in range(n):
        a, b = t.number(), t.number(1, 400)
        text = (
            f"[{t.clock()}] server pid {a}: config missing",
            f"2024-05-{t.number(10, 28)} {t.clock()} ERROR conn refused by worker[{a}]:",
            f"no route (took {a / 1000:.2f}s) at app.py:{b}",
            json.dumps({"ok": False, "why": "locked out", "timestamp": 1_700_000_000 + a, "pid": a}),
            f'File "/srv/app.py", line {b}, in load\nKeyError: "name"',
        )[shape]
        t.call("bash", {"command": "curl -s localhost/health"}, text)


def stateful_changes(t: Tape, n: int) -> None:
    shape = t.number(0, 1)
    for i in range(n):
        text = (
            f"1. {_NAMES[i % 12]} open\n2. {i} closed",
            f"last change at {i:02d}:{t.number(10, 59)}:00 by pid {100 + i}",
        )[shape]
        t.call("task_list", {}, text, stateful=True)


def key_order(t: Tape, n: int) -> None:
    for _ in range(n):
        items = [("path", "a.py"), ("start", 1), ("end", 40), ("options", {"x": 1, "y": 2})]
        t.rng.shuffle(items)
        t.call("view", dict(items), "def a(): ...")


def scroll_pages(t: Tape, n: int) -> None:
    shape, size = t.number(0, 3), t.number(5, 30)
    for i in range(n):
        low = i * size
        lines = "\n".join(f"line {low + j}: {t.one(*_NAMES)}" for j in range(size))
        numbered = "\n".join(f"{low + j}\tx = {t.one(*_NAMES)}" for j in range(size))
        if shape == 0:
            t.call("scroll_down", {}, lines)
        elif shape == 1:
            t.call("read_file", {"path": "big.py", "offset": low, "limit": size}, numbered)
        elif shape == 2:
            t.call("bash", {"command": f"sed -n '{low + 1},{low + size}p' big.log"}, lines)
        else:
            t.call("browser_scroll", {"direction": "down"}, f"showing items {low + 1} to {low + size}")


# --- errors -------------------------------------------------------------------------------------------------------


def error_class(t: Tape, n: int) -> None:
    shape = t.number(0, 3)
    for i in range(n):
        name = f"{t.one(*_NAMES)}{t.number(1, 999)}"
        if shape == 0:
            t.fail("read_file", {"path": f"/app/{name}.py"}, f"File not found: /app/{name}.py", "FileNotFoundError")
        elif shape == 1:
            t.fail(
                "edit_file", {"path": "m.py", "old": f"def {name}():"}, f"old text 'def {name}():' not found in m.py"
            )
        elif shape == 2:
            t.fail(
                "bash",
                {"command": f"python -c 'print({name}('"},
                f"  File \"<string>\", line 1\n    print({name}(\nSyntaxError: '(' was never closed",
                "exit_code",
            )
        else:
            t.fail(
                "http_get",
                {"url": f"https://api.example.org/v{i}/{name}"},
                f"401 Unauthorized for https://api.example.org/v{i}/{name}",
                "HTTPError",
            )


def edit_test(t: Tape, n: int) -> None:
    generic = t.number(0, 1)
    for i in range(n):
        t.call("edit_file", {"path": "calc.py", "old": f"v{i}", "new": f"v{i + 1}"}, "updated calc.py")
        if t.number(0, 2) == 0:
            t.call("read_file", {"path": "calc.py"}, f"v{i + 1}\nprint()")
        text = f"FAILED tests/test_{t.one(*_NAMES)}.py::test_{i} - AssertionError: {t.number()} != {t.number()}"
        t.fail(
            "bash",
            {"command": "pytest -q"},
            f"Exit code 1\n{text}" if generic else text,
            "exit_code" if generic else None,
        )
    t.call("bash", {"command": "pytest -q"}, "31 passed")


def failing_call(t: Tape, n: int) -> None:
    tool, value, message, kind = t.one(
        ("bash", {"command": "make release"}, "make: *** No rule to make target 'release'", "exit_code"),
        ("write_file", {"path": "/etc/x", "text": "1"}, "Permission denied: /etc/x", "PermissionError"),
        ("send_mail", {"to": "a@example.org"}, "unknown sender identity", None),
    )
    for _ in range(n):
        t.fail(tool, dict(value), message, kind)


def timeouts(t: Tape, n: int) -> None:
    jitter = t.number(0, 1)
    for i in range(t.number(3, 6)):
        value = {"url": "https://example.org/big.zip", **({"timeout": 10 * (i + 1)} if jitter else {})}
        t.fail(
            "download",
            value,
            t.one("timed out", "Read timeout after 30 s", "503 Service Unavailable", "Connection reset by peer"),
            "TimeoutError",
        )
    t.call("download", {"url": "https://example.org/big.zip"}, "saved big.zip")


# --- cycles and fillers -----------------------------------------------------------------------------------------


def cycle_of(period: int) -> Template:
    """A template of ``period`` calls that come round with the same results."""

    def write(t: Tape, n: int) -> None:
        members = [
            (t.one("read_file", "open_page", "list_dir"), {"path": f"{_NAMES[i]}"}, f"{_NAMES[i]} is {t.number()}")
            for i in range(period)
        ]
        for _ in range(4 if period > 3 else max(5, n // 2)):
            for tool, value, result in members:
                t.call(tool, dict(value), result)

    return write


def round_with_news(period: int) -> Template:
    """The twin: the same calls come round, and bring something new each time."""

    def write(t: Tape, n: int) -> None:
        for i in range(4 if period > 3 else max(5, n // 2)):
            for j in range(period):
                t.call("read_sensor", {"path": _NAMES[j]}, f"{_NAMES[j]} is {i * 100 + t.number(1, 99)}")

    return write


def filler(t: Tape, n: int) -> None:
    fails = t.number(0, 1)
    for _ in range(n):
        if fails:
            t.fail("bash", {"command": "python run.py"}, "ModuleNotFoundError: No module named 'yamlx'", "exit_code")
        else:
            t.call("search", {"query": "config loader"}, "config.py: load()")
        for _ in range(t.number(1, 3)):
            k = t.fresh()
            t.call(t.one("read_file", "list_dir", "open_page"), {"path": f"dir{k}/f{k}"}, f"content {k}")


def rerun_with_news(t: Tape, n: int) -> None:
    for _ in range(n):
        t.call("bash", {"command": "python run.py"}, f"DEBUG value={t.number()} cache={t.one('hit', 'miss')}")
        for _ in range(t.number(1, 3)):
            k = t.fresh()
            t.call(t.one("read_file", "edit_file"), {"path": f"dir{k}/f{k}"}, f"content {k}")


# --- like calls without news, and batches -----------------------------------------------------------------------


def similar_calls(t: Tape, n: int) -> None:
    shape = t.number(0, 2)
    for _ in range(n):
        if shape == 0:
            words = ["install", "plugin", "error", "windows"]
            t.rng.shuffle(words)
            t.call(
                "search",
                {"query": " ".join(words), "limit": t.number(3, 30)},
                "1. Plugin guide\n2. Known issues\n3. Forum\n4. Blog",
            )
        elif shape == 1:
            t.call("click", {"x": t.number(100, 130), "y": t.number(200, 230)}, "clicked; the page did not change")
        else:
            t.call("bash", {"command": f"head -n {t.number(50, 500)} short.txt"}, "one\ntwo\nthree\nfour")


def many_files(t: Tape, n: int) -> None:
    shape = t.number(0, 3)
    for i in range(n):
        name = f"{t.one(*_NAMES)}{i}"
        if shape == 0:
            t.call("read_file", {"path": f"src/{name}.py"}, f"class {name}: pass")
        elif shape == 1:
            t.call("move_file", {"from": f"in/{name}.csv", "to": f"out/{name}.csv"}, "moved")
        elif shape == 2:
            t.call("bash", {"command": f"python -m py_compile src/{name}.py"}, "")
        else:
            t.call("validate", {"file": f"data/{name}.json"}, f"data/{name}.json is valid")


def nothing_found(t: Tape, n: int) -> None:
    shape = t.number(0, 1)
    for i in range(max(13, n)):
        text = f"{t.one(*_NAMES)} {t.one(*_NAMES)} {i}"
        t.call("search", {"query": text}, "[]" if shape else f'No results for "{text}"')


def empty_waits(t: Tape, n: int) -> None:
    shape = t.number(0, 2)
    for _ in range(n):
        if shape == 0:
            t.call("execute_bash", {"command": ""}, t.one("", "[no new output]"))
        elif shape == 1:
            t.call("wait", {"seconds": t.one(10, 20, 30)}, "")
        else:
            t.call("bash", {"command": "sleep 30 && tail -1 train.log"}, "epoch 1 begins")
    t.call("execute_bash", {"command": ""}, "training finished")


PAIRS: tuple[tuple[str, str], ...] = (
    ("same_call", "polling_changes"), ("words_change", "wait_then_done"), ("noise_only", "stateful_changes"),
    ("key_order", "scroll_pages"), ("error_class", "edit_test"), ("failing_call", "timeouts"),
    ("cycle_2", "news_2"), ("cycle_3", "news_3"), ("cycle_5", "news_5"), ("cycle_8", "news_8"),
    ("filler", "rerun_with_news"), ("similar_calls", "many_files"), ("nothing_found", "empty_waits"),
)  # fmt: skip
"""Stuck kinds and their sound twins."""

_BY_NAME: dict[str, Template] = {
    f.__name__: f
    for f in (
        same_call, polling_changes, words_change, wait_then_done, noise_only, stateful_changes, key_order, scroll_pages,
        error_class, edit_test, failing_call, timeouts, filler, rerun_with_news, similar_calls, many_files,
        nothing_found, empty_waits,
    )
}  # fmt: skip
_BY_NAME |= {f"cycle_{p}": cycle_of(p) for p in range(2, 9)}
_BY_NAME |= {f"news_{p}": round_with_news(p) for p in range(2, 9)}


def corpus(seed: int = 0, variations: int = 10) -> list[Case]:
    """The cases: ``variations`` of every kind in :data:`PAIRS`, as many stuck as sound."""
    templates = [(name, stop, _BY_NAME[name]) for pair in PAIRS for name, stop in zip(pair, (True, False), strict=True)]
    return generate(templates, _around, seed, variations)
