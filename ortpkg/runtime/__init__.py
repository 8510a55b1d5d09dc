"""The execution engine: a chosen model's graph becomes a session that runs.

A session loads a model, transforms its graph, divides it among execution providers, plans memory
and runs the plan; compiled contexts are made, loaded and judged here. Packages are read below and
variants are chosen above.

Rooms: ``engine``, ``ep_context``, ``kernels``, ``pipelines``, ``providers``, ``session``.
"""
