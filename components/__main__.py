"""Lets the engine start this folder as the plugin `trimtab` (see PulumiPlugin.yaml)."""

from trimtab.provider.serve import main

main()
