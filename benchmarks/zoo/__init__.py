"""Models of kinds that people run, random weights: ``python -m benchmarks.zoo.build DIRECTORY``."""
