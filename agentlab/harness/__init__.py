"""The harness: perform, the loop, waking, and the child process. Holds nothing that can not be rebuilt from the log."""
