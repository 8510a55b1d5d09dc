"""Packages on their way between machines: references, the artifact that a package is in a registry,
and the repositories that hold artifacts (OCI registries, OCI image layouts).

It knows bytes and documents, not which variant a machine wants, and not where a machine keeps what
arrived: that is ``store`` and what stands above it.
"""
