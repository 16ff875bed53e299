"""A very small stand-in for Megatron-LM: arguments, a transformer of one head, and a training loop."""
