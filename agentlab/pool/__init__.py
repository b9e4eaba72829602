"""What the sessions of a lab share: places to run in, and the queue for them. Kept in a log of its own in the lab.

The pool's log is a log like a session's: appended exclusively, folded, chained. Its events are all inputs: whoever
needs a place writes it down, and of two that want the last one only one append wins. No process serves it.
"""
