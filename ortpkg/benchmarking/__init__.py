"""Measuring variants in child processes, and keeping what was measured on this machine.

Within alone: ``child_session``, ``child_worker``, ``memory``, ``package_digest``,
``quarantine_copy``, ``record_format``, ``run_statistics``; what else is here is for all.
"""
