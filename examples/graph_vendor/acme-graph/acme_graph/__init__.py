"""The Acme 1 as a vendor of npu-graph."""
