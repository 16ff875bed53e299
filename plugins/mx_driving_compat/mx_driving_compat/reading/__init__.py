"""Reads a `patch.py` for mx_driving.patcher 1.0 or 2.0 as a plugin. The file is parsed, and never imported."""
