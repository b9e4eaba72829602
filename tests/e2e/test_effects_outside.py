"""Effects through real sessions: processes, sockets, files. Exactly one effect, or an honest doubt.

For each kind of outside: three retries, a lost reply, a kill between the effect and its record, and two harnesses at
once, of which the older one was only stopped and sends what it was about to send after the younger one has finished.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from agentlab import process
from agentlab.effects.receiver import ReceiverProcess
from agentlab.testing.smtp_server import SmtpServerProcess

from . import outsides

KEYED = sorted(name for name, (_, _, honours) in outsides.ADAPTERS.items() if honours)
UNKEYED = sorted(set(outsides.ADAPTERS) - set(KEYED))


class Outside:
    """An outside of one kind, in a folder of its own, and how often the effect is really there."""

    def __init__(self, adapter: str, folder: Path, server) -> None:
        folder.mkdir(parents=True)
        self.adapter, self.folder, self.server = adapter, folder, server
        self.params = {"folder": str(folder)}
        if adapter.startswith("http"):
            self.params["url"] = server.url
        elif adapter == "smtp":
            self.params.update(port=server.port, maildir=str(server.maildir))
        else:
            self.database = folder / f"orders.{adapter}"
            self.params["database"] = str(self.database)
            table = "CREATE TABLE orders(item TEXT)"
            if adapter == "sqlite":
                with closing(sqlite3.connect(self.database)) as connection:
                    connection.execute(table)
            else:
                with closing(duckdb.connect(str(self.database))) as connection:
                    connection.execute(table)

    def count(self) -> int:
        if self.adapter.startswith("http"):
            return len(self.server.ledger())
        if self.adapter == "smtp":
            return len(self.server.mails())
        connect = sqlite3.connect if self.adapter == "sqlite" else duckdb.connect
        with closing(connect(str(self.database))) as connection:
            return connection.execute("SELECT count(*) FROM orders").fetchone()[0]

    def executions(self) -> int:
        return len(list(self.folder.glob("execution-*")))


@pytest.fixture
def outside(tmp_path):
    servers = []

    def make(adapter: str, name: str) -> Outside:
        server = None
        if adapter.startswith("http"):
            server = ReceiverProcess(tmp_path / f"{name}-server", ignore_keys=adapter == "http_nokey")
        elif adapter == "smtp":
            server = SmtpServerProcess(tmp_path / f"{name}-server")
        if server is not None:
            server.start()
            servers.append(server)
        return Outside(adapter, tmp_path / name, server)

    yield make
    for server in servers:
        server.kill()


def kinds(session):
    return [event.type for event in session.replay()]


@pytest.mark.timeout(900)
def test_three_tries_a_lost_reply_and_a_kill_each_give_exactly_one_effect(lab, outside):
    cases = []
    for adapter in outsides.ADAPTERS:
        for story, misdeeds, crash in (
            ("retries", "refuse refuse lose", ()),
            ("lost", "lose", ()),
            ("killed", "", ["harness@effect.reply"]),
        ):
            made = outside(adapter, f"{adapter}-{story}")
            session = lab.create(outsides.task(adapter, misdeeds=misdeeds, **made.params), crash=crash)
            cases.append((adapter, story, made, session))
    for first in range(0, len(cases), 5):
        for *_, session in cases[first : first + 5]:
            session.start()
        for adapter, story, made, session in cases[first : first + 5]:
            status = session.wait(120)
            context = f"{adapter} {story}: {status}"
            assert status.status == "completed", f"{context} {session.locate()}"
            assert made.count() == 1, context
            (effect,) = session.effects()
            assert effect.state == "completed" and effect.key.startswith(session.id), context
            keys = {e.payload["key"] for e in session.replay() if e.type == "effect_pending"}
            assert keys == {effect.key}, "one key over all retries"
            tries = {"retries": 3, "lost": 1, "killed": 1}[story]
            assert (effect.tries, made.executions()) == (tries, tries), context
            assert "effect_verified" in kinds(session), "what is not on record is verified, never repeated blindly"
            assert ("recovery_completed" in kinds(session)) == (story == "killed")
            session.verify()


def two_at_once(lab, outside, until, adapter, story):
    """The older harness is stopped with its effect registered and not sent; a younger one takes the session."""
    made = outside(adapter, f"{adapter}-{story}")
    session = lab.create(outsides.task(adapter, **made.params), crash=["stop:harness@effect.send"])
    session.start(restart=False)
    until(lambda: session.state.process and process.stopped(session.state.process["pid"]), what="a stopped harness")
    older = dict(session.state.process)
    argv = [sys.executable, "-P", "-m", "agentlab.harness.child", "--lab", str(lab.path), f"--session={session.id}"]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    env = {k: v for k, v in os.environ.items() if not k.startswith("AGENTLAB_")} | {"PYTHONPATH": path}
    return made, session, older, [*argv, "--takeover"], env


def let_the_older_one_go_on(older):
    os.kill(older["pid"], signal.SIGCONT)
    assert process.await_death(older, 60.0), "it finds that it is fenced, and leaves"


@pytest.mark.parametrize("adapter", KEYED)
def test_two_harnesses_at_once_give_one_effect_where_the_outside_honours_keys(lab, outside, until, adapter):
    made, session, older, argv, env = two_at_once(lab, outside, until, adapter, "both")
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert session.status().status == "completed" and made.count() == 1
    let_the_older_one_go_on(older)
    assert made.executions() == 2, "both have sent it"
    assert made.count() == 1, "and it happened once"
    assert kinds(session).count("effect_completed") == 1
    session.verify()


@pytest.mark.parametrize("adapter", UNKEYED)
def test_two_harnesses_at_once_are_in_doubt_where_the_outside_honours_none(lab, outside, until, adapter):
    made, session, older, argv, env = two_at_once(lab, outside, until, adapter, "both")
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert session.status().status == "waiting" and made.count() == 0
    (effect,) = session.effects()
    assert effect.state == "in_doubt" and "may be alive" in effect.evidence
    let_the_older_one_go_on(older)
    assert made.count() == 1, "it came later, as was feared"
    session.settle(effect.key, "done")
    until(lambda: not lab.supervisor.alive(session.id), what="the keeper to let go of the older one")
    session.wake(timeout_s=120)
    assert session.status().status == "completed" and made.count() == 1
    assert session.effects()[0].state == "completed" and session.effects()[0].evidence == "by a person"
    session.verify()
