"""The command line: one module for each command, which asks the layers below and prints.

Other folders may import: ``app``, ``interrupts``.
"""
