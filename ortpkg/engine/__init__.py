"""From a partitioned graph to results: transformers, the planning layers, executors.

Only this folder may import: ``bound_outputs``, ``foreign_results``, ``output_checks``,
``owned_values``, ``placement_search``, ``run_errors``; other folders may import the rest.
"""
