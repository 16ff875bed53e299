"""What vendors and the pipeline read: the operations of a subgraph, their arguments and their values."""
