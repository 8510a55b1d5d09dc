"""Checks of ``validate``, a module for each subject; the rules are in ``authoring.rules``."""
