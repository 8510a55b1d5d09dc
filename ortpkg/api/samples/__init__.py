"""Samples of a package: recorded by a publisher, run and compared on a user's machine.

Other folders may import: ``sample_authoring``, ``sample_runner``.
"""
