"""How often each kernel ran."""

from __future__ import annotations

from collections import Counter

calls: Counter[str] = Counter()
