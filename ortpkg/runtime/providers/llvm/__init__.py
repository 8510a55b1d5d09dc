"""Execution provider of machine code: compiles partitions with LLVM and runs the programs."""
