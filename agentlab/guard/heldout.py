"""The held-out corpus: other tools, other words, other shapes than the corpus.

Written before the rules were first run. At that first run the guard halted 0.929 of the stuck runs and no sound one:
a process id in brackets without a colon (``noisy_log``) was not taken for noise. That one was then added, so that
kind no longer counts as unseen; :mod:`agentlab.guard.unseen` holds kinds that came after.
"""

from __future__ import annotations

import json

from agentlab.guard.case import Case, Tape, Template, generate

PLANETS = (
    "mercury",
    "venus",
    "ceres",
    "vesta",
    "pallas",
    "juno",
    "iris",
    "flora",
    "metis",
    "hygiea",
    "psyche",
    "egeria",
)


def around(t: Tape, n: int) -> None:
    """Ordinary work before and after the telling part."""
    for _ in range(n):
        k = t.fresh()
        match t.number(0, 3):
            case 0:
                t.call(
                    "fs.open",
                    {"uri": f"repo://svc/{t.one(*PLANETS)}_{k}.kt"},
                    f"package svc.p{k}\nclass C{k} {{ val a = {k} }}",
                )
            case 1:
                t.call("editor.apply", {"uri": f"repo://svc/m{k}.kt", "diff": f"+ val z{k} = {k}"}, f"applied hunk {k}")
            case 2:
                t.call("terminal", {"cmd": f"gradle :mod{k}:classes"}, f"BUILD SUCCESSFUL, {k} actionable tasks")
            case _:
                t.call(
                    "kb.lookup", {"q": f"{t.one(*PLANETS)} orbit {k}"}, f"article {k}: semi-major axis {k / 7:.4f} au"
                )


# --- stuck -----------------------------------------------------------------------------------------------------


def _same_query(t: Tape, n: int) -> None:
    for _ in range(n):
        t.call(
            "warehouse.sql", {"statement": "select region, sum(amount) from orders group by 1"}, "emea|1200\napac|900"
        )


def _reworded(t: Tape, n: int) -> None:
    for _ in range(n):
        why = t.one("to be sure", "double-checking", "the user wants this", "verifying again")
        t.call("fs.open", {"uri": "repo://svc/Main.kt", "explanation": f"{why} {t.number()}"}, "fun main() = run()")


def _noisy_log(t: Tape, n: int) -> None:
    for _ in range(n):
        when = f"2031-03-0{t.number(1, 9)}T{t.clock()}.{t.number(100, 999)}Z"
        out = f"{when} worker[{t.number()}] boot refused (Boot.kt:{t.number(1, 900)})"
        t.call("terminal", {"cmd": "tail -1 /var/log/svc.log"}, out)


def _noisy_json(t: Tape, n: int) -> None:
    for _ in range(n):
        out = {"code": "E_LICENSE", "pid": t.number(), "took_ms": t.number(), "at": f"2031-01-01T{t.clock()}Z"}
        t.call("license.check", {"product": "core"}, json.dumps(out))


def _jittered_lookup(t: Tape, n: int) -> None:
    for i in range(n):
        path = f"/opt/data/{t.one(*PLANETS)}{i}.parquet"
        t.fail(
            "dataset.load", {"location": path}, f"[Errno 2] No such file or directory: '{path}'", "FileNotFoundError"
        )


def _jittered_sql(t: Tape, n: int) -> None:
    for i in range(n):
        col = t.one("ammount", "amnt", "amt_total", "amounts", "sum_amount") + str(i)
        t.fail(
            "warehouse.sql",
            {"statement": f"select {col} from orders"},
            f'column "{col}" does not exist\nLINE 1: select {col}',
            "UndefinedColumn",
        )


def _cycle_of(period: int) -> Template:
    def write(t: Tape, n: int) -> None:
        members = [
            (
                t.one("fs.open", "kb.lookup", "repo.grep"),
                {"target": f"{PLANETS[i]}"},
                f"about {PLANETS[i]}: {t.number()}",
            )
            for i in range(period)
        ]
        for _ in range(4 if period > 4 else max(5, n // 2)):
            for tool, value, result in members:
                t.call(tool, dict(value), result)

    return write


def _stuck_between(t: Tape, n: int) -> None:
    for _ in range(n):
        t.call("repo.grep", {"regex": "fun legacyEntry", "glob": "**/*.kt"}, "src/Old.kt: fun legacyEntry()")
        for _ in range(t.number(1, 3)):
            k = t.fresh()
            t.call("fs.open", {"uri": f"repo://svc/f{k}.kt"}, f"class F{k}")


def _fails_the_same(t: Tape, n: int) -> None:
    for _ in range(n):
        t.fail(
            "terminal",
            {"cmd": "terraform apply -auto-approve"},
            "Error: Invalid provider configuration\n  on main.tf",
            "exit_code",
        )


def _shuffled(t: Tape, n: int) -> None:
    for _ in range(n):
        items = [("zone", "eu-1"), ("flavor", "m2"), ("image", "deb-13"), ("tags", ["a", "b"])]
        t.rng.shuffle(items)
        t.fail("vm.launch", dict(items), "quota for flavor m2 is exhausted", "QuotaExceeded")


def _reworded_search(t: Tape, n: int) -> None:
    for _ in range(n):
        terms = ["kotlin", "coroutine", "deadlock", "dispatcher"]
        t.rng.shuffle(terms)
        extra = [t.one("fix", "help", "solution")] if t.number(0, 1) else []
        t.call(
            "web.find",
            {"q": " ".join(terms + extra), "limit": t.number(5, 50)},
            "1. Dispatchers explained\n2. Structured concurrency\n3. Why runBlocking hurts\n4. Testing coroutines",
        )


def _nothing_found(t: Tape, n: int) -> None:
    for i in range(max(n, 13)):
        t.call("crm.find_contact", {"name": f"{t.one(*PLANETS)} {t.one('ltd', 'gmbh', 'inc')} {i}"}, "[]")


# --- sound -----------------------------------------------------------------------------------------------------


def _queue_drains(t: Tape, n: int) -> None:
    left = 40 * n
    for _ in range(n):
        left -= t.number(1, 39)
        t.call("queue.depth", {"queue": "ingest"}, json.dumps({"depth": left}))


def _rollout(t: Tape, n: int) -> None:
    for _ in range(n):
        t.call("deploy.status", {"release": "r88"}, json.dumps({"phase": "IN_PROGRESS", "error": None}))
    t.call("deploy.status", {"release": "r88"}, json.dumps({"phase": "COMPLETE", "error": None}))


def _spaced_polls(t: Tape, n: int) -> None:
    for _ in range(n):
        t.call("pause", {"seconds": 20})
        t.call("deploy.status", {"release": "r9"}, "replicas are still being created")
    t.call("deploy.status", {"release": "r9"}, "all replicas healthy")


def _inbox(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("inbox.list", {"folder": "new"}, f"unread: thread {i * 3 + t.number(0, 2)}", stateful=True)


def _repair(t: Tape, n: int) -> None:
    for i in range(n):
        t.call(
            "editor.apply", {"uri": "repo://svc/Pay.kt", "diff": f"- val x{i}\n+ val x{i} = {t.number()}"}, "applied"
        )
        t.fail(
            "terminal",
            {"cmd": "gradle test"},
            f"Exit code 1\nPayTest > {t.one(*PLANETS)}{i} FAILED\n  expected {t.number()} but was {t.number()}",
            "exit_code",
        )
    t.call("terminal", {"cmd": "gradle test"}, "BUILD SUCCESSFUL")


def _many_sources(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("fs.open", {"uri": f"repo://svc/model/{t.one(*PLANETS)}{i}.kt"}, f"data class M{i}(val a: Int)")


def _many_conversions(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("image.convert", {"src": f"raw/{i:03d}.tiff", "dst": f"out/{i:03d}.webp"}, "converted")


def _many_lints(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("terminal", {"cmd": f"ktlint src/{PLANETS[i % 12]}/{t.one('A', 'B')}{i}.kt"}, "")


def _silent_shell(t: Tape, n: int) -> None:
    t.call("shell.send", {"keys": "make world\n"}, "")
    for _ in range(n):
        t.call("shell.send", {"keys": ""}, "")
    t.call("shell.send", {"keys": ""}, "world made")


def _flaky(t: Tape, n: int) -> None:
    for _ in range(t.number(3, 6)):
        t.fail(
            "registry.fetch",
            {"crate": "tessera"},
            t.one("request timed out after 30s", "upstream returned 503", "deadline exceeded"),
            "NetworkError",
        )
    t.call("registry.fetch", {"crate": "tessera"}, "tessera 1.4.2")


def _paging(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("viewer.next", {}, "\n".join(f"row {i * 20 + j}: {t.one(*PLANETS)}" for j in range(20)))


def _paging_by_number(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("tickets.page", {"page": i + 1}, f"page {i + 1}: tickets {i * 10 + 1}-{i * 10 + 10}")


def _edit_each_then_check(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("editor.apply", {"uri": f"repo://svc/w{i}.kt", "diff": f"+ import x{i}"}, "applied")
        t.call("terminal", {"cmd": "gradle compileKotlin"}, "BUILD SUCCESSFUL")


def _round_with_news(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("market.quote", {"symbol": "ABC"}, f"{100 + i + t.number(1, 99) / 100:.2f}")
        t.call("market.quote", {"symbol": "XYZ"}, f"{50 - i + t.number(1, 99) / 100:.2f}")


TEMPLATES: tuple[tuple[str, bool, Template], ...] = (
    ("same_query", True, _same_query),
    ("reworded", True, _reworded),
    ("noisy_log", True, _noisy_log),
    ("noisy_json", True, _noisy_json),
    ("jittered_lookup", True, _jittered_lookup),
    ("jittered_sql", True, _jittered_sql),
    ("cycle_2", True, _cycle_of(2)),
    ("cycle_5", True, _cycle_of(5)),
    ("cycle_8", True, _cycle_of(8)),
    ("stuck_between", True, _stuck_between),
    ("fails_the_same", True, _fails_the_same),
    ("shuffled_keys", True, _shuffled),
    ("reworded_search", True, _reworded_search),
    ("nothing_found", True, _nothing_found),
    ("queue_drains", False, _queue_drains),
    ("rollout", False, _rollout),
    ("spaced_polls", False, _spaced_polls),
    ("inbox", False, _inbox),
    ("repair", False, _repair),
    ("many_sources", False, _many_sources),
    ("many_conversions", False, _many_conversions),
    ("many_lints", False, _many_lints),
    ("silent_shell", False, _silent_shell),
    ("flaky", False, _flaky),
    ("paging", False, _paging),
    ("paging_by_number", False, _paging_by_number),
    ("edit_each_then_check", False, _edit_each_then_check),
    ("round_with_news", False, _round_with_news),
)


def heldout(seed: int = 0, variations: int = 8) -> list[Case]:
    """The held-out cases: as many stuck as sound."""
    return generate(TEMPLATES, around, seed, variations)
