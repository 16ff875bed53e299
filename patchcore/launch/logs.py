"""What a program that is run sees of the log of patchcore."""

from __future__ import annotations

import logging
from typing import Optional

from patchcore.process import process_rank, rank_variable

__all__ = ["log_to_stderr"]


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]  # a generic since Python 3.11 only
    """Writes to stderr while the program has not set up logging; after that the records go where the program's go."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            super().emit(record)


class _Formatter(logging.Formatter):
    """Says who speaks, and of the ranks of a job, which."""

    def format(self, record: logging.LogRecord) -> str:
        rank = f" [rank {process_rank()}]" if rank_variable() is not None else ""
        return f"patchcore{rank}: {super().format(record)}"


def log_to_stderr(level: Optional[str] = None) -> None:
    """Show the ``patchcore`` log on stderr, from ``level`` on, warnings by default; calling it again sets the level."""
    logger = logging.getLogger("patchcore")
    if level is not None:
        logger.setLevel(level)
    if not any(isinstance(handler, _StderrHandler) for handler in logger.handlers):
        handler = _StderrHandler()
        handler.setFormatter(_Formatter())
        logger.addHandler(handler)
