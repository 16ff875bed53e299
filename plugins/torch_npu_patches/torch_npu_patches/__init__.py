"""Patches for torch and numpy on Ascend NPUs. Importing this package imports neither.

``migrate/`` converts sources: the rules in ``rules/*.toml`` are applied by ``project.py``, which returns findings.
``ops/`` traces operators and compares them with ``tables``. Each is a command that ``plugin.py`` adds.
"""
