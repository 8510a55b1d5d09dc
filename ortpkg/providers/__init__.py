"""Execution providers: for each a light factory, that says what it can do, and a heavy provider,
that does it.

What authors of plug-ins implement: ``ep_factory`` and ``execution_provider``.
"""
