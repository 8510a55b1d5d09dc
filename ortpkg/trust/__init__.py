"""What of a stranger's package may take effect: session and provider options, and native compiled
contexts; and whether the files that a session loads are those that were recorded.
"""
