"""From a partitioned graph to results: transformers, the planning layers, executors.

Within alone: ``bound_outputs``, ``foreign_results``, ``output_checks``, ``owned_values``,
``placement_search``, ``run_errors``; what else is here is for all.
"""
