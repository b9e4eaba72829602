"""What a recovery rests on: ``snapshot``, ``events`` or ``hybrid``, each a class of its own.

Whatever the scheme, every event is logged, and effects and the budget always come from the whole log.

============  =========================  ==========================  ====================================
scheme        checkpoints                a recovery reads            a crash loses
============  =========================  ==========================  ====================================
``hybrid``    as the policy says         the newest, and the events  at most the command in progress
                                         after its cursor
``events``    only those asked for by    every event from the first  at most the command in progress
              hand; never recovered from  on; lost sandboxes are run
                                         again from the start
``snapshot``  as the policy says, and    the newest; what came after what came after the newest checkpoint:
              at every pause             it is superseded            it is done again
============  =========================  ==========================  ====================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agentlab.definition import PolicySpec
from agentlab.errors import UnknownName
from agentlab.policies import Facts, due
from agentlab.session.state import State


class Scheme(Protocol):
    """When a checkpoint is due, whether a recovery may rest on one, and what it gives up."""

    @property
    def name(self) -> str: ...

    def due(self, policy: PolicySpec, facts: Facts) -> str | None:
        """The reason for a checkpoint now, or None."""
        ...

    def rests_on_checkpoints(self) -> bool:
        """Whether the state may be loaded from a checkpoint instead of from the first event."""
        ...

    def goes_back(self, state: State) -> bool:
        """Whether the recovery in progress has to give up what came after the newest checkpoint."""
        ...


class Hybrid:
    """Events always, a snapshot of the state now and then: the default."""

    name = "hybrid"

    def due(self, policy: PolicySpec, facts: Facts) -> str | None:
        return due(policy, facts)

    def rests_on_checkpoints(self) -> bool:
        return True

    def goes_back(self, state: State) -> bool:
        return False


class Events(Hybrid):
    """Event sourcing: small, explains everything, slow to recover."""

    name = "events"

    def due(self, policy: PolicySpec, facts: Facts) -> str | None:
        return None

    def rests_on_checkpoints(self) -> bool:
        return False


class Snapshot(Hybrid):
    """Snapshots alone: quick, large, and what came after the newest one is done again."""

    name = "snapshot"

    def due(self, policy: PolicySpec, facts: Facts) -> str | None:
        reason = due(policy, facts)
        if reason is None and facts.pausing and facts.events > 0:
            return "pause"  # nothing may be lost by a rest that was asked for
        return reason

    def goes_back(self, state: State) -> bool:
        return not state.recovery.went_back


SCHEMES: Mapping[str, Scheme] = {scheme.name: scheme for scheme in (Hybrid(), Events(), Snapshot())}
"""Every scheme by name."""


def scheme_named(name: str) -> Scheme:
    """The scheme of that name.

    Raises:
        UnknownName: there is none.
    """
    found = SCHEMES.get(name)
    if found is None:
        raise UnknownName("scheme", name, SCHEMES)
    return found
