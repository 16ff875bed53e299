"""Installing distributions: those of this project, their folders, and the command line for pip."""
