"""One module per kernel, named as in the real package."""
