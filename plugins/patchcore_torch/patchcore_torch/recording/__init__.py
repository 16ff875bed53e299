"""Records the tensors of training steps, module by module, for ``patchcore compare``. Importing this imports no torch.

Data flow: ``patches.py`` declares where torch calls ``recorder.py``; that describes tensors with ``statistics.py``
under the names of ``naming.py``, and ``records.py`` writes a line for each. ``same_random.py`` draws random numbers on
the CPU; ``msprobe.py`` has another recorder in its place.
"""
