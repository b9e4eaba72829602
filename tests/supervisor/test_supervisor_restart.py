"""Deaths, restarts, what dies with a harness and what does not."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict
from typing import Any

import pytest

from agentlab import process
from agentlab.errors import AgentlabError, SessionBusy, UnknownName
from agentlab.supervisor import keeper_system, owned

from .conftest import Bench, os_sessions, until

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_restart_follows_a_sigkill_at_once_and_tells_the_death(bench: Bench, record_property: Any) -> None:
    owner = bench.supervisor()
    record = owner.start("s", bench.argv(["work:5", "stay"]), arm={"seed": 7})
    assert record.to_json() == process.identify(bench.staying()["pid"])
    killed_ns = time.monotonic_ns()
    assert owner.kill("s") == record
    bench.staying(2)
    first, second = bench.told()
    death = second["death"]
    assert first["death"] is None and first["arm"] == second["arm"] == {"seed": 7}
    assert (death["pid"], death["signal"], death["exit_code"]) == (record.pid, signal.SIGKILL, None)
    assert death["incarnation"] == 1 and death["record"] == record.to_json() and death["earlier"] == []
    assert abs(death["at_us"] - time.time_ns() // 1000) < 3600e6, "microseconds of now"
    record_property(
        "figures", f"the next harness runs {(second['started_ns'] - killed_ns) / 1e6:.0f} ms after the kill"
    )
    assert owner.alive("s") and owner.running() == ["s"]


def test_tool_hosts_are_reaped_before_the_next_start_and_the_sandbox_lives_on(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(["spawn:sandbox", "spawn:toolhost", "work:9", "stay"], ["stay"]))
    bench.staying()
    owner.kill("s")
    bench.staying(2)
    assert bench.told()[1]["there"] == {"sandbox": True, "toolhost": False}
    assert process.liveness(bench.spawned("sandbox")) == "alive"
    assert bench.recorded("harness")["pid"] == bench.told()[1]["pid"]
    assert sorted(one.kind for one in owned(bench.lab)) == ["harness", "keeper", "sandbox"]


@linux_only
def test_a_daemon_of_a_tool_host_dies_with_it(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(["daemon:toolhost", "work:9", "stay"], ["stay"]))
    bench.staying()
    host = bench.spawned("toolhost")["pid"]
    until(lambda: _sessions_of("import os, signal", bench) > 1, "the tool host has its daemon")
    owner.kill("s")
    bench.staying(2)
    assert not os.path.exists(f"/proc/{host}")
    until(lambda: _sessions_of("import os, signal", bench) == 0, "the tool host's tree is gone")
    keeper, harness = bench.recorded("keeper")["pid"], bench.told()[1]["pid"]
    until(lambda: keeper_system.children_of(keeper) == [harness], "adopted orphans are reaped")


@linux_only
@pytest.mark.parametrize("kind", ["sandbox", "toolhost"])
def test_a_daemon_of_a_child_that_dies_unannounced_dies_too(bench: Bench, kind: str) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv([f"daemon:{kind}", "stay"]))
    bench.staying()
    until(lambda: _sessions_of("import os, signal", bench) > 1, "the child has its daemon")
    os.kill(bench.spawned(kind)["pid"], signal.SIGKILL)
    until(lambda: _sessions_of("import os, signal", bench) == 0, "the child's tree is gone")
    assert len(bench.told()) == 1


@linux_only
def test_many_deaths_leave_no_zombie_and_no_descriptor(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start(
        "s", bench.argv(["spawn:sandbox", "spawn:toolhost", "work:1", "stay"], ["spawn:toolhost", "work:2", "stay"])
    )
    bench.staying()
    keeper = bench.recorded("keeper")["pid"]
    open_files = len(os.listdir(f"/proc/{keeper}/fd"))  # one that it holds for a moment may be among them
    for count in range(2, 12):
        owner.kill("s")
        bench.staying(count)
    alive = {bench.told()[-1]["pid"], bench.spawned("sandbox")["pid"], bench.spawned("toolhost")["pid"]}
    # zombies would be among them, and stay
    until(lambda: set(keeper_system.children_of(keeper)) == alive, "the keeper has the living children alone")
    until(lambda: len(os.listdir(f"/proc/{keeper}/fd")) <= open_files, "the keeper has no more open files than before")


def test_a_stopped_harness_can_be_stopped_for_good(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(["stay"]))
    bench.staying()
    owner.kill("s", sig=signal.SIGSTOP)
    assert owner.wait_exit("s", 0.1) is None
    owner.stop("s", signal.SIGKILL)
    left = owner.wait_exit("s", 60)
    assert left is not None and left.signal == signal.SIGKILL and len(bench.told()) == 1


def test_a_death_that_the_keeper_has_not_seen_yet_is_no_reason_to_refuse_a_start(bench: Bench) -> None:
    owner = bench.supervisor()
    harness = owner.start("s", bench.argv(["stay"]), restart=False)
    for count in range(1, 13):  # about every third of them came too early for the keeper
        bench.staying(count)
        os.kill(harness.pid, signal.SIGKILL)
        until(lambda harness=harness: process.liveness(asdict(harness)) == "dead", "the harness is dead")
        before, harness = harness, owner.start("s", bench.argv(["stay"]), restart=False)
        assert harness != before and owner.alive("s")


def test_the_end_of_a_keeper_is_never_taken_for_the_end_of_the_next(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(["stay"]))
    bench.staying()
    late, heard = threading.Event(), owner._keeper_ended

    def slowly() -> None:  # the thread that learns of a keeper's end may get no processor for a while
        late.wait(60)
        heard()

    owner._keeper_ended = slowly  # type: ignore[method-assign]
    os.kill(bench.recorded("keeper")["pid"], signal.SIGKILL)
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(owner.start, "s", bench.argv(["stay"]))
        wait([again], timeout=1.0)
        late.set()
        pid = again.result(60).pid
    bench.staying(2)
    assert owner.alive("s") and owner.wait_exit("s", 0.05) is None and bench.told()[-1]["pid"] == pid


def _sessions_of(code: str, bench: Bench) -> int:
    return len(os_sessions(str(bench.lab), code))


def test_a_crash_loop_stops_after_three_deaths_without_work(bench: Bench) -> None:
    owner = bench.supervisor()
    events: list[Any] = []
    owner.on_event(events.append)
    owner.start("s", bench.argv(["progress:4", "exit:3"]))
    left = owner.wait_exit("s", 60)
    assert left is not None and left.crash_loop and (left.code, left.signal, left.done) == (3, None, None)
    assert not owner.alive("s")
    loop = until(lambda: [e for e in events if e["event"] == "crash_loop"], "the crash loop is told")
    assert loop == [{"event": "crash_loop", "session": "s", "deaths": 3, "seq": 4}]
    assert len(bench.told()) == 3
    assert [death["exit_code"] for death in bench.told()[2]["death"]["earlier"]] == [3]
    # the next harness, started by hand, still learns of all three
    owner.start("s", bench.argv(["done:paused"]))
    again = owner.wait_exit("s", 60)
    assert again is not None and again.done == "paused" and not again.crash_loop
    assert len(bench.told()[3]["death"]["earlier"]) == 2


def test_work_resets_the_counter_and_a_death_after_work_does_not_count(bench: Bench) -> None:
    owner = bench.supervisor()
    plans = [["exit:1"], ["exit:1"], ["work:5", "die"], ["die"], ["progress:6", "die"], ["stay"]]
    owner.start("s", bench.argv(*plans))
    bench.staying()
    assert len(bench.told()) == 6
    assert owner.status()["s"]["no_progress"] == 2


def test_a_harness_that_leaves_on_purpose_is_not_restarted(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(["spawn:sandbox", "spawn:toolhost", "done:waiting"]))
    left = owner.wait_exit("s", 60)
    assert left is not None and left.done == "waiting" and left.code == 0
    assert len(bench.told()) == 1
    until(lambda: process.liveness(bench.spawned("toolhost")) == "dead", "its tool host is gone")
    assert process.liveness(bench.spawned("sandbox")) == "alive"
    owner.start("s", bench.argv(["stay"]))
    bench.staying()
    assert bench.told()[1]["there"]["sandbox"] and bench.told()[1]["death"] is None


def test_stop_ends_without_restart_and_forget_ends_the_sandbox_too(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(["spawn:sandbox", "stay"]))
    bench.staying()
    owner.stop("s")
    left = owner.wait_exit("s", 60)
    assert left is not None and left.signal == signal.SIGTERM
    assert process.liveness(bench.spawned("sandbox")) == "alive"
    owner.forget("s")
    until(lambda: process.liveness(bench.spawned("sandbox")) == "dead", "the sandbox is gone")
    until(lambda: owner.status() == {}, "the session is forgotten")
    owner.start("s", bench.argv(["stay"], ["stay"]))
    bench.staying(2)
    owner.forget("s")
    owner.start("s", bench.argv(["done:ended"]))
    owner.forget("s")
    until(lambda: owner.status() == {}, "the session is forgotten")
    with pytest.raises(UnknownName):
        owner.kill("s")


@pytest.mark.parametrize("target", ["sandbox", "toolhost"])
def test_kill_reaches_only_its_target(bench: Bench, target: str) -> None:
    owner = bench.supervisor()
    record = owner.start("s", bench.argv(["spawn:sandbox", "spawn:toolhost", "stay"]))
    bench.staying()
    other = "toolhost" if target == "sandbox" else "sandbox"
    assert owner.kill("s", target).to_json() == bench.spawned(target)
    until(lambda: process.liveness(bench.spawned(target)) == "dead", f"the {target} is dead")
    assert process.liveness(bench.spawned(other)) == process.liveness(record.to_json()) == "alive"
    until(lambda: target not in [one.kind for one in owned(bench.lab)], "its record is removed")


def test_restart_off_and_a_program_that_does_not_exist(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(["die"]), restart=False)
    left = owner.wait_exit("s", 60)
    assert left is not None and left.signal == signal.SIGKILL and not left.crash_loop
    with pytest.raises(AgentlabError, match="/nowhere/at/all"):
        owner.start("t", ["/nowhere/at/all"])
    with pytest.raises(UnknownName):
        owner.wait_exit("t", 1)


def test_a_session_has_one_harness_and_wait_exit_has_a_limit(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(["stay"]))
    with pytest.raises(SessionBusy, match="running here|runs here"):
        owner.start("s", bench.argv(["stay"]))
    assert owner.wait_exit("s", 0.05) is None


def test_garbage_from_a_harness_does_not_hurt_the_keeper(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(["garbage", "spawn:sandbox", "stay"]))
    bench.staying()
    assert "pet" in bench.told(having="garbage")[0]["garbage"]["error"]
    assert process.liveness(bench.spawned("sandbox")) == "alive"


def test_a_callback_may_use_the_supervisor(bench: Bench) -> None:
    owner = bench.supervisor()
    seen: list[Any] = []
    owner.on_event(lambda event: seen.append((event["event"], threading.current_thread().name, owner.status())))
    owner.start("s", bench.argv(["done:ended"]))
    until(lambda: "exited" in [name for name, _, _ in seen], "the exit was told")
    assert threading.main_thread().name not in [name for _, name, _ in seen]


def test_starts_from_many_threads(bench: Bench) -> None:
    owner = bench.supervisor()
    names = [f"s{n}" for n in range(6)]
    threads = [
        threading.Thread(target=owner.start, args=(name, bench.argv(["done:ended"], session=name))) for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    exits = [owner.wait_exit(name, 60) for name in names]
    assert all(left is not None and left.done == "ended" for left in exits)
    assert len([one for one in owned(bench.lab) if one.kind == "keeper"]) == 1


@linux_only
def test_no_descriptor_leaks_to_keeper_or_children(bench: Bench, tmp_path: Any) -> None:
    secret = os.open(tmp_path / "secret", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(secret, True)
    try:
        owner = bench.supervisor()
        harness = owner.start("s", bench.argv(["spawn:sandbox", "spawn:toolhost", "stay"])).pid
        owner.start("t", bench.argv(["stay"], session="t"))
        bench.staying()
        bench.staying(session="t")
    finally:
        os.close(secret)
    expected = {harness: 4, bench.told("t")[0]["pid"]: 4}  # in, out, err, and the link
    expected |= {bench.spawned("sandbox")["pid"]: 3, bench.spawned("toolhost")["pid"]: 3}
    for pid, count in expected.items():
        folder = f"/proc/{pid}/fd"
        # polled: one that is just starting, or closing its file of news, has one more for a moment
        until(functools.partial(_holds, folder, count), f"{folder} has {count} entries")
    keeper = bench.recorded("keeper")["pid"]
    assert not any("secret" in name for name in _open_in(f"/proc/{keeper}/fd"))


def _open_in(folder: str) -> Iterator[str]:
    for fd in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            yield os.readlink(os.path.join(folder, fd))


def _holds(folder: str, count: int) -> bool:
    return len(os.listdir(folder)) == count
