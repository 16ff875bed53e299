"""Code between the processor and the model: which tokens stand for images."""
