"""Test doubles that users of agentlab can run too."""
