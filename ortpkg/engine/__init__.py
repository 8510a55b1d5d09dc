"""From a partitioned graph to results: transformers, the planning layers, executors."""
