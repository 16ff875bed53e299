"""How distributions are installed here: what this project has, where it lies, and the command line for pip."""
