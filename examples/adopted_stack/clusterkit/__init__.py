"""A tool of the team's cluster, which patches the same program without a manager."""
