"""Measuring variants in child processes, and keeping what was measured on this machine.

One variant at a time; what is measured of a whole package, :mod:`ortpkg.bench` says.

Only this folder may import: ``child_session``, ``child_worker``, ``gpu_memory``,
``quarantine_copy``, ``record_format``, ``run_statistics``; other folders may import the rest.
"""
