"""Which crash points an exploration can reach at all, in which world, and what a task needs to reach the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from agentlab.crashpoints import CrashPoint as P

REAL_ONLY: Mapping[P, str] = {
    **dict.fromkeys(
        (P.BLOB_WRITE, P.BLOB_FSYNC, P.BLOB_DIRSYNC), "files of a store on disk; in memory a blob appears whole"
    ),
    **dict.fromkeys(
        (
            P.SEAL,
            P.SEGMENT_WRITE,
            P.SEGMENT_FSYNC,
            P.SEGMENT_LINK,
            P.SEGMENT_DIRSYNC,
            P.SEGMENT_UNLINK,
            P.SEGMENT_CLEAN,
        ),
        "files of a store on disk, merged when a session has ended",
    ),
    **dict.fromkeys((P.TOOLHOST_SPAWN, P.TOOLHOST_KILL), "the process that tools run in"),
    **dict.fromkeys((P.HARNESS_SPAWN, P.HARNESS_KILL), "the owner's process, which starts and ends harnesses"),
}
"""Points that only real processes have, and why: real kills strike there (``explore --real``, the tests of the package)."""
SIMULATED = tuple(point for point in P if point not in REAL_ONLY)
"""Points that a simulation has."""
OF_A_HARNESS = tuple(point for point in P if point not in (P.HARNESS_SPAWN, P.HARNESS_KILL, P.TOOLHOST_KILL))
"""Points at which a real harness can be killed in a run in which nothing else goes wrong (a tool host is killed when it hangs)."""
NEEDS: Mapping[P, str] = {
    **dict.fromkeys((P.TOOL_SEND, P.TOOL_REPLY), "a pure tool"),
    **dict.fromkeys((P.EFFECT_SEND, P.EFFECT_REPLY), "an external tool"),
    P.EFFECT_VERIFY: "an external tool, and a death after it was registered",
    P.EFFECT_CLAIM: "a tool with once_per_content",
    **dict.fromkeys(
        (P.SANDBOX_SPAWN, P.SANDBOX_CONNECT, P.SANDBOX_EXECUTE, P.SANDBOX_RESULT, P.SANDBOX_ACK, P.SANDBOX_DESTROY,
         P.SNAPSHOT),
        "a sandboxed tool",
    ),
    P.SNAPSHOT_RESTORE: "a sandboxed tool, and a checkpoint before its sandbox dies",
    **dict.fromkeys((P.POINTER_WRITE, P.CHECKPOINT_LOAD), "a policy that writes checkpoints"),
}  # fmt: skip
"""What a task needs so that it reaches a point."""


def figures(hit: Collection[P]) -> dict[str, Any]:
    """The points as plain data: those known, those hit, and of each other one whether it is missing here or lives elsewhere."""
    return {
        "crash_points": len(P),
        "points_hit": len(hit),
        "points_simulated": len(SIMULATED),
        "points_not_hit": sorted(point.value for point in SIMULATED if point not in hit),
        "points_real_only": sorted(point.value for point in REAL_ONLY),
    }


def lines(hit: Collection[P], drill: bool = False) -> list[str]:
    """The same in words. A ``drill`` visits what it visits: what else there is, is no lack of the task's."""
    needs: dict[str, list[str]] = {}
    for point in SIMULATED:
        if point not in hit:
            needs.setdefault(NEEDS.get(point, "a longer run"), []).append(point.value)
    reached = len([point for point in hit if point not in REAL_ONLY])
    out = [f"crash points hit: {reached} of the {len(SIMULATED)} that a simulation has"]
    if drill:
        return out
    out += [f"  not reached by this task: {', '.join(names)} (needs {need})" for need, names in needs.items()]
    real = ", ".join(sorted(point.value for point in REAL_ONLY))
    return [*out, f"  {len(REAL_ONLY)} more only real processes have (explore --real strikes there): {real}"]
