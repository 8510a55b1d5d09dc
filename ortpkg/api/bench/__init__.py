"""``ortpkg bench``: measure the variants of a package that can run here.

It chooses variants and inputs; :mod:`ortpkg.selection.measuring` measures each.

Only this folder may import: ``candidate_choice``, ``pipeline_recording``; other folders may import
the rest.
"""
