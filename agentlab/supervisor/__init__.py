"""Supervision: the keeper process, the owner's side of it, and what is known of the processes of a lab."""

from agentlab.supervisor.client import Exit, Supervisor, supervisor
from agentlab.supervisor.connection import Event
from agentlab.supervisor.liveness import Standing, ensure_free, standing, takeover
from agentlab.supervisor.ps import Owned, owned, reap

__all__ = [
    "Event",
    "Exit",
    "Owned",
    "Standing",
    "Supervisor",
    "ensure_free",
    "owned",
    "reap",
    "standing",
    "supervisor",
    "takeover",
]
