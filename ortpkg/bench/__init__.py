"""``ortpkg bench``: measures the variants of a package that can run here, and draws the result.

Which variants, on what inputs; each is measured by :mod:`ortpkg.measuring`.

Within alone: ``candidates``, ``pipeline_recording``; what else is here is for all.
"""
