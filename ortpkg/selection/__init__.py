"""Which variant runs on which EP device, and why: constraints, limits, ranking, policies,
explanation.
"""
