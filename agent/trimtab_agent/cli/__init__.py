"""The ``trimtab`` command."""
