"""What of a stranger's package may take effect: session and provider options, and native compiled
contexts.
"""
