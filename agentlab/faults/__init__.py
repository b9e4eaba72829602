"""Faults: what can be made to go wrong, as plain data, and its arming in a process."""

from agentlab.faults.arming import Arming
from agentlab.faults.schedule import NAMED, Faults
from agentlab.faults.spec import Fault, parse_fault, parse_faults

__all__ = ["NAMED", "Arming", "Fault", "Faults", "parse_fault", "parse_faults"]
