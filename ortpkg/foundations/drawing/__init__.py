"""Pictures as SVG and as text, which load nothing and need no program to read.

Other folders may import: ``palette``, ``scales``, ``svg``, ``text_pictures``.
"""
