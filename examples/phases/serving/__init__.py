"""A server that computes in a process of its own, as vLLM does. It knows nothing of patches."""
