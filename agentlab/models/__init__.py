"""Models: a scripted one that costs nothing, a recorded one that replays a session, and Anthropic's.

Importing this package loads no client library; :mod:`agentlab.models.anthropic` loads its own at the first call.
"""
