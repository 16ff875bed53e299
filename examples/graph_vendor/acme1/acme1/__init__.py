"""The software that comes with an Acme 1, a vector processor with a memory of its own: assembler and driver.

There is no such processor. ``acme1.device`` does what it would do, with NumPy.
"""
