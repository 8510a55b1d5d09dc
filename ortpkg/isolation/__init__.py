"""Foreign code in child processes: started, spoken to, watched for time and memory, and ended."""
