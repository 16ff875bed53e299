"""Ranks of a distributed program as processes, and what they print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def run_processes(ranks: Sequence[tuple[Sequence[str], Mapping[str, str]]]) -> list[dict[str, Any]]:
    """Run processes at once, all of which have to end well.

    Args:
        ranks: for each the arguments of the interpreter, and further environment variables.

    Returns:
        The last line of what each printed, read as JSON.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for arguments, environment in ranks
    ]
    try:
        outputs = [process.communicate(timeout=900) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank, process in enumerate(processes):
        assert process.returncode == 0, f"rank {rank}:\n{outputs[rank][1]}"
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]
