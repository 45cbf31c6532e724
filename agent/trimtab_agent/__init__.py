"""What runs: the node agent, the reconciler and the command line."""
