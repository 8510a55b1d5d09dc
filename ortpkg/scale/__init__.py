"""Many requests and many rows: servers, batches and clusters that run packages.

A package is served over the Open Inference Protocol, run over a table in parts that can be resumed,
or given to a Ray cluster. Everything here uses a package as its users do, through ``api``.

Rooms: ``batches``, ``ray``, ``serving``.
"""
