"""``python -m agentlab.guard``: precision and recall of the guard and of four existing detectors."""

from __future__ import annotations

from agentlab.guard.case import Case, Detector, score
from agentlab.guard.corpus import corpus
from agentlab.guard.detect import findings
from agentlab.guard.existing import EXISTING
from agentlab.guard.heldout import heldout
from agentlab.guard.unseen import unseen

DETECTORS: dict[str, Detector] = {"agentlab": findings, **EXISTING}


def table(title: str, cases: list[Case]) -> str:
    """The comparison on one corpus: overall, then errors by kind."""
    stuck = sum(c.stop for c in cases)
    lines = [f"{title}: {stuck} stuck, {len(cases) - stuck} sound", ""]
    lines.append(f"{'detector':<16}{'halting':>20}{'any verdict':>22}")
    lines.append(f"{'':<16}{'precision':>11}{'recall':>9}{'precision':>13}{'recall':>9}")
    wrong: dict[str, dict[str, int]] = {}
    for name, detector in DETECTORS.items():
        halting, any_ = score(detector, cases), score(detector, cases, nudges=True)
        lines.append(
            f"{name:<16}{halting.precision:>11.3f}{halting.recall:>9.3f}{any_.precision:>13.3f}{any_.recall:>9.3f}"
        )
        wrong[name] = {**halting.missed, **halting.false_alarms}
    each = {c.kind: sum(d.kind == c.kind for d in cases) for c in cases}
    sides = {c.kind: "stuck" if c.stop else "sound" for c in cases}
    lines += ["", f"{'judged rightly, halting':<26}" + "".join(f"{name:>15}" for name in DETECTORS)]
    for kind, count in each.items():
        marks = "".join(f"{f'{max(0, count - wrong[name].get(kind, 0))}/{count}':>15}" for name in DETECTORS)
        lines.append(f"{kind:<20}{sides[kind]:<6}{marks}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table("corpus", corpus()))
    print()
    print(table("held-out", heldout()))
    print()
    print(table("unseen", unseen()))
