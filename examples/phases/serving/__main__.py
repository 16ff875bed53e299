"""Starts the server: ``python -m serving``."""

from __future__ import annotations

import multiprocessing

from serving.config import describe, find_platform
from serving.worker import work


def main() -> None:
    """Find the platform, start a worker with ``spawn``, and wait for it."""
    find_platform()
    print(f"server: {describe()}", flush=True)
    worker = multiprocessing.get_context("spawn").Process(target=work)
    worker.start()
    worker.join()
    print(f"server: {describe()}", flush=True)
    if worker.exitcode:
        raise SystemExit(f"the worker ended with {worker.exitcode}")


if __name__ == "__main__":
    main()
