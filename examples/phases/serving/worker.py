"""The process that computes."""

from __future__ import annotations

from serving.config import describe, find_platform


def start_worker() -> None:
    """Prepare the device."""
    find_platform()


def work() -> None:
    """Run the worker."""
    start_worker()
    print(f"worker: {describe()}", flush=True)
