"""From a partitioned graph to results: transformers, partitioning, the three planning layers,
executors.
"""
