"""From a tensor program to a program that runs: steps, memory, compiled kernels in one code."""
