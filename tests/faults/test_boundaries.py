"""Every boundary of input and output in the product has a crash point, or a reason that stands here."""

from __future__ import annotations

import ast

from agentlab.crashpoints import CrashPoint

from .boundaries import PACKAGE, Boundary, boundaries

OTHER_PROCESSES = {
    "effects.owned": "an outside for tests and demos, of another process",
    "effects.receiver": "the receiver's own process; its death is an outside that does not answer",
    "sandbox.durable": "the sandbox's own process, killed as a whole: sandbox@…",
    "sandbox.listening": "the sandbox's own process",
    "sandbox.results": "the sandbox's own process",
    "sandbox.running": "the sandbox's own process",
    "sandbox.serve": "the sandbox's own process",
    "sandbox.trees": "the sandbox's own process",
    "sandbox.workplace": "the sandbox's own process",
    "sandbox.snapshot": "the sandbox's own process; its caller has snapshot.take and snapshot.restore",
    "supervisor.keeper": "the keeper's own process: with it everything below ends",
    "supervisor.keeper_parts": "the keeper's own process",
    "supervisor.keeper_sessions": "the keeper's own process",
    "supervisor.keeper_system": "the keeper's own process",
    "toolhost.child": "the tool host's own process, killed as a whole: tool:lost_reply",
    "toolhost.inside": "a tool's process in the sandbox",
    "toolhost.misdeeds": "a tool's process, misbehaving as it was told",
    "toolhost.warden": "the tool host's own process",
    "testing.smtp_server": "a server for tests",
    "testing.messages_server": "a server for tests",
    "effects.smtp": "an adapter: runs in the tool host, between effect.send and effect.reply",
    "tasks.sales_tools": "a tool: runs in the sandbox",
    "tasks.table_tools": "a tool: runs in the sandbox",
    "examples.sound_delivery": "a tool: runs in the sandbox",
    "explorer.outbox": "an outside for tools, between effect.send and effect.reply",
}
OWNERS = ("lab", "notebook", "cli", "analysis", "comparing", "query", "bench", "demo", "experiments", "transfer")
"""Floors that run in the owner's process. What they add to a session goes through its log, which has the points; files of
their own (reports, exports, recordings) are read back by no session; and what they kill, they kill because they are told to."""
NO_SESSION = {
    "harness.simulation": "a simulated world: real files live as long as one command",
    "sandbox.simulated": "a simulated sandbox",
    "faults.arming": "the strike itself",
    "faults.marks": "the mark of a strike: durable before it strikes, and armed again where it is torn",
    "harness.child": "the strike itself, carried out for the arming",
    "harness.second": "the strike itself, carried out for the arming",
    "ownership": "the owner's key: made once, linked into place, before any session of it",
    "portable": "tries in a child process whether code can travel, before the task is accepted",
    "process": "looks at processes; send_signal is called by who has the point",
    "log.repair": "a remedy that a person asks for, with the session at rest",
    "supervisor.liveness": "a takeover, by the owner: a marker that a keeper reads, gone with its keeper",
    "supervisor.ps": "reaps what is dead, from the owner's process",
    "supervisor.connection": "the owner's side of the keeper: with the owner everything ends",
}
PLACES = {
    "keeperlink:KeeperLink._flush": "tells the keeper how far it is; never decides anything",
    "log.blobs:BlobFolder.put": "removes a torn blob that nobody can have acknowledged; blob.write comes next",
    "log.claims:FileClaims.take": "its caller has effect.claim",
    "log.files:discard": "removes a temporary file: its callers have log.unlink and segment.unlink, for others sweeping does",
    "log.files:make_folders": "its callers have blob.dirsync, or make a lab or session that nothing stands in yet",
    "log.pointers:PointerFolder.put": "its caller has checkpoint.pointer on both sides",
    "log.store:ParquetStore._build": "a session's folder, renamed into place whole; without it there is no session",
    "log.store:_remove_folder": "the remains of a session that was never there",
    "sandbox.killing:kill_sandbox": "its callers have sandbox.destroy, or strike",
    "sandbox.killing:_kill_strays": "its callers have sandbox.destroy, or strike",
    "sandbox.killing:stop_sandbox": "strikes",
    "sandbox.killing:continue_sandbox": "by hand",
    "sandbox.local:LocalSandbox._request": "its callers have sandbox.execute, sandbox.acknowledge, snapshot.take, …; a hung one is killed",
    "sandbox.local:LocalSandboxes._prepared": "an empty folder with a note of who makes it, right before sandbox.spawn",
    "sandbox.local:LocalSandboxes._spawn": "its caller has sandbox.spawn",
    "sandbox.processes:_ps": "looks at processes",
    "sandbox.processes:send": "its callers have sandbox.destroy, or strike",
    "sandbox.processes:freeze_below": "as send",
    "sandbox.processes:kill_below": "as send",
    "sandbox.sockets:new_address": "an empty folder, right before sandbox.spawn",
    "sandbox.sockets:note": "the sandbox's own process; without it the folder's age decides",
    "sandbox.spawn:DirectSpawner.spawn": "its caller has sandbox.spawn",
    "sandbox.spawn:DirectSpawner.close": "the owner's end",
    "toolhost.hostprocess:HostProcess.__init__": "its caller has toolhost.spawn",
    "toolhost.hostprocess:HostProcess._write": "its callers have tool.send, effect.send and effect.verify",
    "toolhost.hostprocess:HostProcess.await_ready": "its caller has toolhost.kill",
    "toolhost.hostprocess:HostProcess._ended": "its caller has toolhost.kill",
    "toolhost.hostprocess:HostProcess._kill_from_here": "its caller has toolhost.kill",
}


def reason(found: Boundary) -> str:
    """Why a boundary without a crash point may be one; empty when there is no reason."""
    if found.module == "log.files" and found.function.startswith("Disk."):
        return "the system calls themselves: their callers have the points"
    if found.call.rpartition(".")[2] in ("rename", "fork") and not found.call.startswith("os."):
        return "another thing of the same name"
    if found.call.endswith("misdeeds.replace"):
        return "another thing of the same name"
    if found.module.partition(".")[0] in OWNERS:
        return "in the owner's process"
    if found.module.startswith("explorer.") and found.module not in OTHER_PROCESSES:
        return "simulated deaths, and files that keep what was found"
    return PLACES.get(found.place) or OTHER_PROCESSES.get(found.module) or NO_SESSION.get(found.module) or ""


def test_every_boundary_has_a_crash_point_or_a_reason():
    found = list(boundaries())
    bare = [b for b in found if not b.points and not reason(b)]
    assert bare == [], "\n".join(f"{b.place} line {b.line}: {b.call}" for b in bare)
    assert sum(bool(b.points) for b in found) >= 8, "calls with a point right beside them"
    assert len(found) > 150, "the search finds what there is"


def test_no_reason_is_stale():
    found = [b for b in boundaries() if not b.points]
    places, modules = {b.place for b in found}, {b.module for b in found}
    assert [place for place in PLACES if place not in places] == []
    stale = [m for m in (*OTHER_PROCESSES, *NO_SESSION) if m not in modules and m != "testing.messages_server"]
    assert stale == []


def test_every_crash_point_stands_in_the_product():
    named = {
        node.attr
        for path in PACKAGE.rglob("*.py")
        if path.name != "crashpoints.py" and "explorer" not in path.relative_to(PACKAGE).parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "CrashPoint"
    }
    assert {point.name for point in CrashPoint} <= named
    assert len(CrashPoint) >= 41


def test_a_new_write_without_a_point_is_found(tmp_path, monkeypatch):
    from . import boundaries as search

    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "shortcut.py").write_text(
        "import os\nfrom agentlab.crashpoints import reach\n"
        "def quick(path, data):\n    with open(path, 'wb') as file:\n        file.write(data)\n    os.link(path, path + '.2')\n"
        "def careful(path):\n    reach('log.link', 'before')\n    os.link(path, path + '.2')\n"
    )
    monkeypatch.setattr(search, "PACKAGE", tmp_path)
    found = [(b.function, bool(b.points), bool(reason(b))) for b in search.boundaries()]
    assert found == [("quick", False, False), ("quick", False, False), ("careful", True, False)]
