"""A deterministic world that drives the real planner and its checks: no AWS, no engine, no clock of its own."""
