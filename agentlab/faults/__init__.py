"""Faults: what can be made to go wrong, as plain data, and its arming in a process."""

from agentlab.faults.arming import Arming
from agentlab.faults.spec import Fault, parse_fault, parse_faults

__all__ = ["Arming", "Fault", "parse_fault", "parse_faults"]
