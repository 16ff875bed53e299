"""Counts the calls of each kernel."""

from __future__ import annotations

from collections import Counter

calls: Counter[str] = Counter()
