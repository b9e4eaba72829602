"""The facade: a lab is a folder of sessions, a session is a log with verbs."""

from agentlab.lab.lab import Lab
from agentlab.lab.session import Session

__all__ = ["Lab", "Session"]
