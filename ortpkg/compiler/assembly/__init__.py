"""Assembly: turns a tensor program into a runnable one, with steps, memory and compiled kernels."""
