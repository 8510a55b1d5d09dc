"""Pictures as SVG and as text, drawn by hand: they load nothing and read without a program.

Other folders may import: ``palette``, ``scales``, ``svg``, ``text_pictures``.
"""
