"""Reads a Python program: the values of names, the conditions of calls, where the module of a path ends."""
