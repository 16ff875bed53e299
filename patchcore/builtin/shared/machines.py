"""Where a process runs: texts that tell machines, containers and processes apart when names and ids are equal.

Two pods may have one host name, and in each of them the program is process 1.
"""

from __future__ import annotations

import functools
import hashlib
import os

__all__ = ["machine", "process_identity"]


@functools.lru_cache(None)
def machine() -> str:
    """Return a text for the machine and the container: 16 hexadecimal digits.

    On Linux made from the id of the boot (random(4)) and the namespace of process ids (pid_namespaces(7)), elsewhere
    from the name of the host.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return _digest(file.read().strip(), os.readlink("/proc/self/ns/pid"))
    except (OSError, ValueError):
        return _digest(os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", ""))


def process_identity() -> str:
    """Return a text for this process: 16 hexadecimal digits, the same after it has become another program (exec).

    A system uses process ids again. The start of the process (``/proc/self/stat``, field 22) tells these apart.
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            started = file.read().rpartition(b")")[2].split()[19].decode()  # the name before it may have spaces
    except (OSError, IndexError):
        started = ""
    return _digest(machine(), str(os.getpid()), started)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
