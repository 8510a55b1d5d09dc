"""``make gpu``: what ortpkg does on a machine with a GPU, tried in minutes and reported as a table.

What is outside of ``inside`` needs nothing but Python's own library; ``inside`` runs in the
environment that is made first, out of a folder of wheels and without a network.
"""
