"""``patchcore compare``: two recordings, the first place where they differ, and the others. Imports no torch.

``running.py`` makes the two recordings of a program, ``reading.py`` reads them, ``judging.py`` pairs their records and
measures differences, ``output.py`` prints, ``command.py`` is the command.
"""
