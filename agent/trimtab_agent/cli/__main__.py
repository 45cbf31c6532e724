"""Lets `python -m trimtab_agent.cli` be the `trimtab` command."""

from trimtab_agent.cli.main import main

main()
