"""What a Python program says: the values of names, the conditions of calls, where the module of a path ends."""
