"""Pictures as SVG, drawn by hand: they load nothing and are readable without a program.

All modules are for all.
"""
