"""Command line: one module for each command, which calls the layers below and prints.

Other folders may import: ``app``, ``interrupts``.
"""
