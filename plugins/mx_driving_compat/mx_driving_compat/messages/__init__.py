"""The messages of the patcher: its logger, the summary of a run, and the result of a patch."""
