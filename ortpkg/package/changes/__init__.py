"""Change a package in one step, and recover one that a killed process left half changed.

Only this folder may import: ``garbage``; other folders may import the rest.
"""
