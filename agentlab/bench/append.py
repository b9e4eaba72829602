"""What a durable append costs beside the bare system calls it is made of, on the same disk in the same minute."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path
from time import perf_counter

from agentlab.events import Draft, Event, Head, seal
from agentlab.events.codec import encode
from agentlab.log import ParquetLog, ParquetStore
from agentlab.ports import Durability

_PAYLOAD = {"id": "n", "text": "The table has 1,204 rows; 3 of them lack a date. Next: fill the dates from the orders."}


def append_ratio(
    folder: str | os.PathLike[str], rounds: int = 200, durability: Durability = "disk"
) -> dict[str, float]:
    """Interleave one-event appends with bare writes of as many bytes under ``folder``; medians in microseconds.

    Returns ``append_us``, ``bare_us`` (write, fsync, link, fsync of the folder, unlink), their ``ratio``,
    ``encode_us`` and ``bytes`` of a commit. What was written is removed again.
    """
    place = Path(tempfile.mkdtemp(prefix="append-", dir=folder))
    try:
        log = ParquetStore(place / "lab").create("bench", durability)
        bare = place / "bare"
        bare.mkdir()
        appends, bares, encodes = [], [], []
        data = b""
        for index in range(rounds + 10):  # the first ten warm up
            events = _event(log.head(), index)
            begun = perf_counter()
            data = encode(events)
            encoded = perf_counter()
            log.append(events, events[0].seq)
            appended = perf_counter()
            _bare(bare, index, data)
            done = perf_counter()
            encodes.append(encoded - begun)
            appends.append(appended - encoded)
            bares.append(done - appended)
        medians = [statistics.median(times[10:]) * 1e6 for times in (appends, bares, encodes)]
    finally:
        shutil.rmtree(place)
    return {
        "append_us": medians[0],
        "bare_us": medians[1],
        "ratio": medians[0] / medians[1],
        "encode_us": medians[2],
        "bytes": float(len(data)),
    }


def append_at(
    folder: str | os.PathLike[str], seqs: tuple[int, ...] = (10, 10_000), rounds: int = 100
) -> dict[int, float]:
    """Median microseconds of a one-event append around each of ``seqs``, in one session that is never sealed.

    The commits in between are appended without fsync, so that this takes seconds.
    """
    place = Path(tempfile.mkdtemp(prefix="append-", dir=folder))
    try:
        store = ParquetStore(place / "lab")
        store.create("bench", "disk")
        fast = ParquetLog(store.folder("bench"), "bench", "process")
        out = {}
        for seq in seqs:
            while (head := fast.head()).seq < seq - 1:
                fast.append(_event(head, head.seq), head.seq + 1)
            os.sync()  # else the first fsync pays for what was written in between
            log = store.open("bench")
            log.head()
            times = []
            for index in range(rounds):
                events = _event(log.head(), index)
                begun = perf_counter()
                log.append(events, events[0].seq)
                times.append(perf_counter() - begun)
            out[seq] = statistics.median(times[1:]) * 1e6
    finally:
        shutil.rmtree(place)
    return out


def _event(head: Head, index: int) -> tuple[Event, ...]:
    draft = Draft("note_added", {**_PAYLOAD, "index": index}, step=1, attempt=1, duration_ms=1.5)
    now_us = 1_700_000_000_000_000 + index
    return seal([draft], head, session_id="bench", incarnation=1, commit_id=f"c-{index:016x}", now_us=now_us)


def _bare(folder: Path, index: int, data: bytes) -> None:
    tmp, final = f"{folder}/{index}.tmp", f"{folder}/{index}"
    fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    os.link(tmp, final)
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    os.unlink(tmp)
