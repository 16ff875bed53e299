"""Reads, calls and generates Python objects without running code of theirs."""
