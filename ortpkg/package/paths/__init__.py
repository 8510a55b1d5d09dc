"""What a path or a reference in a package may name, and where it leads.

Every path of a stranger goes through here.
"""
