"""The end of owners and keepers: everything goes, within the grace, and nothing else is touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from agentlab import process
from agentlab.errors import SessionBusy
from agentlab.supervisor import Supervisor, ensure_free, owned, reap, standing, supervisor, takeover

from .conftest import HERE, ROOT, Bench, os_sessions, processes, until

EVERYTHING = ["spawn:sandbox", "spawn:toolhost", "stay"]


def _line(owner: subprocess.Popen[str]) -> list[str]:
    assert owner.stdout is not None
    return owner.stdout.readline().split()


@pytest.mark.parametrize("mode", ["plain", "fork", "fork_plain"])
def test_everything_ends_with_a_killed_owner_although_a_worker_holds_the_channel(bench: Bench, mode: str) -> None:
    owner = bench.owner(EVERYTHING, grace_s=3600.0, mode=mode)
    words = dict([_line(owner)] + ([_line(owner)] if mode != "plain" else []))
    worker = int(words.get("worker", 0))
    bench.staying()
    os.kill(owner.pid, signal.SIGKILL)
    # the harness ends at the SIGTERM, so nobody waits for the whole grace of an hour
    until(lambda: not set(processes(str(bench.lab))) - {worker, owner.pid}, "keeper and children are gone")
    if worker:
        os.kill(worker, signal.SIGKILL)  # raises if it had not been there all the time


@pytest.mark.parametrize("stopped", [False, True], ids=["deaf", "stopped"])
def test_a_harness_that_does_not_end_is_killed_after_the_grace(bench: Bench, stopped: bool) -> None:
    owner = bench.owner(["spawn:sandbox", "ignore_term", "stay"], grace_s=0.5)
    harness = bench.staying()["pid"]
    if stopped:
        os.kill(harness, signal.SIGSTOP)
    began = time.monotonic()
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    bench.nothing_left()
    assert time.monotonic() - began >= 0.5


def test_interrupt_of_the_owners_group_does_not_reach_keeper_or_harness(bench: Bench) -> None:
    owner = bench.owner(EVERYTHING)
    assert _line(owner)[0] == "owner"
    harness = bench.staying()["pid"]
    os.killpg(owner.pid, signal.SIGINT)
    assert _line(owner) == ["interrupted", "True"]
    for kind in ("sandbox", "toolhost"):
        assert process.liveness(bench.spawned(kind)) == "alive"
    assert bench.told()[0]["pid"] == harness and len(bench.told()) == 1
    assert bench.told()[0]["sigint"], "SIGINT must not be ignored in children"
    os.kill(harness, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="without a subreaper only groups can be swept")
def test_a_daemon_of_the_sandbox_does_not_outlive_the_keeper(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(["daemon:sandbox", "stay"]))
    bench.staying()
    until(lambda: len(os_sessions(str(bench.lab))) > 3, "the daemon has its own session")
    owner.close()
    assert processes(str(bench.lab)) == {}


def test_a_killed_keeper_takes_harness_and_sandbox_along_by_their_own_watch(bench: Bench) -> None:
    owner = bench.supervisor()
    events: list[str] = []
    owner.on_event(lambda event: events.append(event["event"]))
    argv = [sys.executable, str(HERE / "standin_linked.py"), str(bench.lab)]
    owner.start("s", argv, {"PYTHONPATH": ROOT}, log_path=bench.lab / "harness.log")
    linked = bench.lab / "linked-0"
    until(linked.exists, "the harness is up")
    os.kill(bench.recorded("keeper")["pid"], signal.SIGKILL)
    left = owner.wait_exit("s", 60)
    assert left is not None and left.keeper_lost
    bench.nothing_left()
    assert (bench.lab / "gone").read_text() in ("pid", "eof")
    until(lambda: "keeper_lost" in events, "the loss is told")
    reap(bench.lab)
    assert owned(bench.lab) == []


def test_a_new_keeper_is_started_and_strays_of_the_old_one_are_killed(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(EVERYTHING, ["stay"]))  # these stand-ins do not watch their keeper
    bench.staying()
    strays = [bench.recorded(kind) for kind in ("harness", "sandbox", "toolhost")]
    os.kill(bench.recorded("keeper")["pid"], signal.SIGKILL)
    assert owner.wait_exit("s", 60) is not None
    owner.start("t", bench.argv(["stay"], session="t"))
    assert [process.liveness(record) for record in strays] == ["dead"] * 3
    assert bench.recorded("harness") not in strays
    assert sorted(one.kind for one in owned(bench.lab)) == ["harness", "keeper"]


def test_a_keeper_that_is_told_to_end_takes_everything_along(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(EVERYTHING))
    bench.staying()
    os.kill(bench.recorded("keeper")["pid"], signal.SIGTERM)
    bench.nothing_left()
    left = owner.wait_exit("s", 60)
    assert left is not None and left.signal == signal.SIGTERM


def test_close_ends_all_and_a_later_start_begins_anew(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(EVERYTHING))
    bench.staying()
    owner.close()
    owner.close()
    assert processes(str(bench.lab)) == {}
    left = owner.wait_exit("s", 60)
    assert left is not None and left.signal == signal.SIGTERM and not left.keeper_lost
    owner.start("s", bench.argv(["done:ended"]))
    again = owner.wait_exit("s", 60)
    assert again is not None and again.done == "ended"


def test_two_supervisors_on_one_lab_do_not_touch_each_other(bench: Bench) -> None:
    one, two = bench.supervisor(), bench.supervisor()
    one.start("a", bench.argv(["stay"], session="a"))
    second = two.start("b", bench.argv(["stay"], session="b"))
    bench.staying(session="a")
    bench.staying(session="b")
    assert sorted(each.session or "" for each in owned(bench.lab)) == ["", "", "a", "b"]
    one.close()
    assert reap(bench.lab) == []
    assert process.liveness(second.to_json()) == "alive" and not one.alive("b")
    assert sorted(each.session or "" for each in owned(bench.lab)) == ["", "b"]
    assert supervisor(bench.lab) is supervisor(bench.lab / "." / "")


def test_takeover_kills_tells_the_keeper_and_leaves_no_tool_host(bench: Bench) -> None:
    owner = bench.supervisor()
    owner.start("s", bench.argv(EVERYTHING))
    bench.staying()
    record = bench.recorded("harness")
    judged = standing(record, "s", bench.lab)
    assert judged.state == "alive" and not judged.ending and str(record["pid"]) in judged.message
    with pytest.raises(SessionBusy, match="take the session over"):
        ensure_free(record, "s", bench.lab)
    assert takeover(record, "s", bench.lab)
    assert process.liveness(record) == process.liveness(bench.spawned("toolhost")) == "dead"
    assert process.liveness(bench.spawned("sandbox")) == "alive"
    left = owner.wait_exit("s", 60)
    assert left is not None and left.taken_over and left.signal == signal.SIGKILL
    assert len(bench.told()) == 1 and [one.kind for one in owned(bench.lab)].count("harness") == 0
    assert not takeover(record, "s", bench.lab)
    ensure_free(record, "s", bench.lab)
    assert not list((bench.lab / "run").glob("takeover-*"))


def test_ensure_free_waits_for_a_harness_whose_owner_is_gone(bench: Bench) -> None:
    owner = bench.owner(["ignore_term", "stay"], grace_s=1.0)
    bench.staying()
    record, keeper = bench.recorded("harness"), bench.recorded("keeper")["pid"]
    os.kill(keeper, signal.SIGSTOP)  # nothing ends before it is looked at
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    assert standing(record, "s", bench.lab).ending
    os.kill(keeper, signal.SIGCONT)
    ensure_free(record, "s", bench.lab)
    assert process.liveness(record) == "dead"


def test_another_process_under_the_same_pid_is_never_signalled(bench: Bench) -> None:
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            wrong = {**process.identify(stranger.pid), "start_time": "1"}
            run = bench.lab / "run"
            run.mkdir()
            entry = {"kind": "harness", "session": "s", "record": wrong, "keeper": wrong, "owner": wrong}
            for kind in ("harness", "toolhost"):
                text = json.dumps({**entry, "kind": kind, "started_at_us": 1})
                (run / f"{kind}-{stranger.pid}.json").write_text(text)
            (run / "harness-1.json").write_text("{torn")
            assert standing(wrong, "s", bench.lab).state == "dead"
            assert not takeover(wrong, "s", bench.lab)
            assert reap(bench.lab) == []
            assert stranger.poll() is None
            assert [path.name for path in run.glob("*.json")] == ["harness-1.json"]
            (run / "harness-1.json").unlink()
        finally:
            stranger.kill()


def test_another_host_is_unknown_and_this_process_is_not_taken_over(bench: Bench) -> None:
    foreign = {**process.identify(), "host": "elsewhere"}
    judged = standing(foreign, "s", bench.lab)
    assert judged.state == "unknown" and "elsewhere" in judged.message
    with pytest.raises(SessionBusy, match="elsewhere"):
        takeover(foreign, "s", bench.lab)
    with pytest.raises(SessionBusy, match="this very process"):
        takeover(process.identify(), "s", bench.lab)


def test_nothing_is_started_or_written_before_the_first_request(bench: Bench) -> None:
    owner = Supervisor(bench.lab / "new")
    assert owner.status() == {} and owner.running() == [] and not owner.alive("s")
    owner.close()
    assert not (bench.lab / "new").exists()
    assert threading.active_count() >= 1
