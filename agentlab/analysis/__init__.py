"""Frames, plots, diagnosis and reports over the logs of sessions."""
