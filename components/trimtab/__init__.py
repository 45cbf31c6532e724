"""Trimtab's library: GPU clusters, scaling groups and access roles as Pulumi resources.

Nothing is imported here on purpose: the node agent and the planner use ``trimtab.model`` without paying for pulumi.
"""
