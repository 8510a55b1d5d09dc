"""Models of the kinds that people run, with random weights: built by ``python -m
benchmarks.zoo.build DIRECTORY``.
"""
