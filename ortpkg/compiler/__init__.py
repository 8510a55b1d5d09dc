"""The compiler: turns partitions of ONNX nodes into machine code for any CPU, with LLVM.

Its stages: ``lowering`` turns nodes into tensor programs, ``fusion`` merges their operations,
``layouts`` puts channels into blocks, ``schedules`` turn operations into loop kernels, ``emission``
turns kernels into machine code, and ``assembly`` combines everything into one program. The code
that runs the result is in :mod:`ortpkg.compiler.machine_code` and needs nothing from here.

Rooms: ``assembly``, ``emission``, ``fusion``, ``layouts``, ``loop_ir``, ``lowering``,
``machine_code``, ``schedules``, ``tensor_ir``.

Other folders may import: ``assembly.compilation_target``, ``assembly.program_assembly``,
``claims``, ``compilation_text``, ``compiler``.
"""
