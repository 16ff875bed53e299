"""What the patcher tells: its logger, the summary of a run, and the result of a patch."""
