"""Examples, and a gallery of mistakes: each ``broken_*`` module holds one task with one mistake that a crash brings out.

==========================================  =====================================================================
:mod:`~agentlab.examples.broken_no_key`     the tool gets an idempotency key and does not pass it on
:mod:`~agentlab.examples.broken_unrecorded` an effect in a tool that says it has none: it happens before any record
:mod:`~agentlab.examples.broken_global`     work is kept in a global of the process instead of in results or files
:mod:`~agentlab.examples.broken_checkpoint` a checkpoint of its own, written without the side effect that followed
:mod:`~agentlab.examples.sound_delivery`    the same work done right
==========================================  =====================================================================

``agentlab explore agentlab.examples.broken_no_key`` finds the mistake and prints the least schedule that shows it.
"""
