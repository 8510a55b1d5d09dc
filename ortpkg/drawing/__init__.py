"""Pictures as SVG, drawn by hand: they load nothing and are readable without a program.

Other folders may import: ``palette``, ``scales``, ``svg``.
"""
