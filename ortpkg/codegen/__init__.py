"""The compiler: partitions of ONNX nodes to machine code for any CPU, with LLVM.

Its stages: ``lowering`` makes tensor programs of nodes, ``fusion`` makes fewer operations of these,
``layouts`` puts channels into blocks, ``schedules`` make loop kernels of operations, ``emission``
makes machine code of kernels, ``assembly`` one program of all. What runs the result lies in
:mod:`ortpkg.machine_code`, and needs none of this.

Other folders may import: ``assembly.compilation_target``, ``assembly.program_assembly``,
``claims``, ``compilation_text``, ``compiler``.
"""
