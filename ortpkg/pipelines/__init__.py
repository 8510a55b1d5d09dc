"""The component models of a package, run one after the other as pipeline.json says.

Limits hold for all steps together.

All modules are for all.
"""
