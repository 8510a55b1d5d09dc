"""The component models of a package, run one after the other as pipeline.json says, within limits
for all of them.
"""
