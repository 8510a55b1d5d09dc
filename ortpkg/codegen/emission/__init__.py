"""From kernels of the loop IR to linked machine code: LLVM IR, objects, one block of code."""
