"""The command line: one module for each command, which asks the layers below and prints.

For others: ``app``, ``interrupts``.
"""
