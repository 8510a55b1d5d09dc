"""Command line: one module for each command, which calls the wings below and prints.

``app`` finds a command by its name and loads its module alone. Parameters that several commands
have are groups (``command_parameters``); what a command prints goes through ``rendering``.

Other folders may import: ``app``, ``interrupts``.
"""
