"""``ortpkg bench``: measures the variants of a package that can run here.

Which variants, on what inputs; each is measured by :mod:`ortpkg.measuring`.

Only this folder may import: ``candidates``, ``pipeline_recording``; other folders may import the
rest.
"""
