"""Foreign code in child processes: started, spoken to, watched for time and memory, and ended.

Only this folder may import: ``child_main``, ``orphan``; other folders may import the rest.
"""
