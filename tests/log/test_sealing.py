"""Sealing with real processes: killed at every boundary, a writer stopped meanwhile, readers that never notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentlab.contracts.log import write
from agentlab.crashpoints import CrashPoint
from agentlab.errors import StorageFailed
from agentlab.events import GENESIS, Event, Head, verify_chain
from agentlab.harness.sealing import seal_ended
from agentlab.lab import Lab
from agentlab.log import ParquetStore
from agentlab.query import Query

from .sealers import _end
from .test_sigkill import environment

TESTS = Path(__file__).parent.parent
POINTS = [point.value for point in CrashPoint if point.value.startswith("segment.")]


def sealer(*argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "log.sealers", *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TESTS,
        env=environment(TESTS),
    )  # fmt: skip


def ended(lab: Path, sizes: tuple[int, ...] = (1, 3, 1, 2)) -> list[Event]:
    """A session ``s`` in small files that has ended."""
    log = ParquetStore(lab).create("s", "process")
    for size in sizes:
        write(log, *["x"] * size)
    log.append(_end(log), log.head().seq + 1)
    return list(log.replay())


def test_killed_at_every_boundary(tmp_path: Path) -> None:
    """Whatever a kill left: nothing is lost or seen twice, the next seal finishes, and the log can go on."""
    written = ended(tmp_path / "whole")
    with sealer("killed", str(tmp_path), "seal", *POINTS) as process:
        out, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    cases = [json.loads(line) for line in out.splitlines()]
    hit = {(case["point"], case["when"]) for case in cases if case["killed"]}
    assert hit == {(name, when) for name in ("seal", *POINTS) for when in ("before", "after")}
    for case in cases:
        log = ParquetStore(case["lab"]).open("s")
        assert list(log.replay()) == written
        seen = Query(ParquetStore(case["lab"])).sql("SELECT seq FROM events ORDER BY seq").seq.tolist()
        assert seen == [event.seq for event in written]
        Lab(case["lab"]).seal()
        again = ParquetStore(case["lab"]).open("s")
        assert [Path(path).name for path, _ in again.commit_files()] == ["000000000001.parquet"] and not again.loose()
        after = write(again, "goes on")
        assert verify_chain([*written, *after], Head(0, GENESIS)) == ParquetStore(case["lab"]).open("s").head()


def test_a_writer_that_was_stopped_loses(tmp_path: Path) -> None:
    """Stop a writer (SIGSTOP), append, compact, continue the writer: it must find that its seq is taken."""
    ParquetStore(tmp_path).create("s", "process")
    write(ParquetStore(tmp_path).open("s"), "one")
    with sealer("stopped", str(tmp_path)) as writer:
        _, status = os.waitpid(writer.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        other = ParquetStore(tmp_path).open("s")
        write(other, "two")
        write(other, "three")
        assert other.seal() == 3
        os.kill(writer.pid, signal.SIGCONT)
        out, _ = writer.communicate(timeout=240)
    assert out.strip() == "conflict at 2"
    for log in (other, ParquetStore(tmp_path).open("s")):
        assert [event.payload["text"] for event in log.replay()] == ["one", "two", "three"]
    assert Query(ParquetStore(tmp_path)).sql("SELECT count(*) AS n FROM events").n.tolist() == [3]


def test_readers_do_not_notice(tmp_path: Path) -> None:
    """While another process writes and seals: every read is whole, in order, and never shorter than the one before."""
    rounds = 30
    ParquetStore(tmp_path).create("s", "process")
    kept = ParquetStore(tmp_path).open("s")
    query = Query(ParquetStore(tmp_path))
    followed: list[int] = []
    counts, lengths, fed = [0], [0], 0
    with sealer("busy", str(tmp_path), str(rounds)) as writer:
        deadline = time.monotonic() + 240
        while writer.poll() is None:
            assert time.monotonic() < deadline
            if fed < rounds and fed <= counts[-1] // 3 + 1:  # the next round runs beside this read
                fed += 1
                os.write(writer.stdin.fileno(), b".")
            followed += [event.seq for event in kept.poll(followed[-1] if followed else 0)]
            row = query.sql("SELECT count(*) AS n, count(DISTINCT seq) AS d, max(seq) AS m FROM events").iloc[0]
            assert row.n == row.d and (row.n == 0 or row.n == row.m)
            counts.append(int(row.n))
            fresh = list(ParquetStore(tmp_path).open("s").replay())
            assert [event.seq for event in fresh] == list(range(1, len(fresh) + 1))
            lengths.append(len(fresh))
    assert writer.returncode == 0
    assert counts == sorted(counts) and lengths == sorted(lengths)
    assert len(set(counts)) > 3, "the reader was never beside the writer"
    followed += [event.seq for event in kept.poll(followed[-1] if followed else 0)]
    assert followed == list(range(1, rounds * 3 + 2))
    assert verify_chain(list(kept.replay()), Head(0, GENESIS)).seq == rounds * 3 + 1


def test_sealing_loads_no_heavy_library(tmp_path: Path) -> None:
    """A harness does it: what it loads, every harness would pay for."""
    ended(tmp_path)
    code = (
        f"import sys; from agentlab.harness.sealing import seal_ended; assert seal_ended({str(tmp_path)!r}, 's') == 5;"
        "print([name for name in ('pandas', 'duckdb', 'matplotlib', 'IPython') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(TESTS), timeout=240
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_only_ended_sessions_are_sealed(tmp_path: Path) -> None:
    ended(tmp_path)
    store = ParquetStore(tmp_path)
    running, broken = store.create("running", "process"), store.create("broken", "process")
    for log in (running, broken):
        write(log, "one")
        write(log, "two")
    Path(broken.commit_files()[0][0]).write_bytes(b"junk")
    assert Lab(tmp_path).seal() == 5
    assert (store.open("s").loose(), running.loose()) == (0, 2)
    assert Lab(tmp_path).seal() == 0


def test_a_seal_that_fails_is_a_remark(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    written = ended(tmp_path)
    segments = Path(ParquetStore(tmp_path).open("s").folder, "segments")
    segments.rmdir()
    segments.write_text("in the way")
    assert seal_ended(tmp_path, "s") == 0
    assert "'s' has ended, but is not sealed" in capfd.readouterr().err
    segments.unlink()
    segments.mkdir()
    assert list(ParquetStore(tmp_path).open("s").replay()) == written
    with pytest.raises(StorageFailed):
        segments.rmdir()
        ParquetStore(tmp_path).open("s").seal()
