"""The engine: transformers, the planning layers, and executors of partitioned graphs.

Only this folder may import: ``bound_outputs``, ``foreign_results``, ``output_checks``,
``owned_values``, ``placement_search``, ``run_errors``; other folders may import the rest.
"""
