"""Foreign code in child processes: started, spoken to, watched for time and memory, and ended.

Within alone: ``child_main``, ``orphan``; what else is here is for all.
"""
