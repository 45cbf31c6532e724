"""Serves the policy pack to the engine; everything else is in importable modules, because this call never returns."""

from trimtab_policies.pack import serve

serve()
