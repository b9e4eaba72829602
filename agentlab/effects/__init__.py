"""External effects for real outsides: each takes the operation's key and can be asked afterwards whether it happened.

=====================================  ========================================================================
:mod:`~agentlab.effects.notify`        the demo's notification, over HTTP to the receiver
:mod:`~agentlab.effects.receiver`      that receiver: a process with its own ledger, which misbehaves on demand
:mod:`~agentlab.effects.http`          any HTTP outside, with keys or without
:mod:`~agentlab.effects.smtp`          mail; the Message-ID is made from the key and looked up in a Maildir
:mod:`~agentlab.effects.sqlite`        SQLite; the key is written in the same transaction
:mod:`~agentlab.effects.duckdb_write`  DuckDB; the same
=====================================  ========================================================================
"""
