"""Contract suites: what every implementation of a port must do, as test classes to subclass (needs pytest)."""
