"""What is forbidden: CrossGuard rules, one module per theme."""
