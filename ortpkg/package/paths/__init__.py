"""What a path or a reference in a package may name, and where it leads; every path of a stranger
goes through here.
"""
