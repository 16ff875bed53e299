"""How distributions are installed here: those of this project, their folders, and the command line for pip."""
