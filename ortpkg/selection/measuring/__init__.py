"""Measure variants in child processes, and store the results on this machine.

One variant at a time; :mod:`ortpkg.api.bench` measures a whole package.

Only this folder may import: ``child_session``, ``child_worker``, ``gpu_memory``,
``quarantine_copy``, ``record_format``, ``run_statistics``; other folders may import the rest.
"""
