"""Events: the vocabulary, canonical JSON, the hash chain, and the rows of a session log."""

from agentlab.events.canonical import Fixed, FixedList, Json, canonical, digest, input_hash, parse, plain, readable
from agentlab.events.event import (
    COLUMNS_V1,
    EVENT_SCHEMA_VERSION,
    GENESIS,
    Draft,
    Event,
    Head,
    chain_hash,
    column_values,
    from_columns,
    iso,
    seal,
    verify_chain,
)
from agentlab.events.kinds import KINDS, Kind
from agentlab.events.spill import resolve, spill

__all__ = [
    "COLUMNS_V1",
    "EVENT_SCHEMA_VERSION",
    "GENESIS",
    "KINDS",
    "Draft",
    "Event",
    "Fixed",
    "FixedList",
    "Head",
    "Json",
    "Kind",
    "canonical",
    "chain_hash",
    "column_values",
    "digest",
    "from_columns",
    "input_hash",
    "iso",
    "parse",
    "plain",
    "readable",
    "resolve",
    "seal",
    "spill",
    "verify_chain",
]
