"""Execution providers: for each a light factory and a heavy provider.

What authors of plug-ins implement: ``ep_factory`` and ``execution_provider``.
"""
