"""Files that change: replaced in one step, locked, known by a digest, remembered facts about them,
rehearsed changes.
"""
