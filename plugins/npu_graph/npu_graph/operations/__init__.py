"""The operations of a subgraph, their arguments and their values, for vendors and the pipeline."""
