"""Emission: turns kernels of the loop IR into machine code: LLVM IR, objects, one block of code."""
