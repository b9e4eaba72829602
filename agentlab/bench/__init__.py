"""Measurements: what the parts cost, as functions that return numbers."""
