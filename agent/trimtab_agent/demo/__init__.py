"""A recorded day on a real engine: everything in one command, nothing left behind."""
