"""Start each kind of child process that training code starts, and find out which of them are patched.

``python -m patchcore.builtin.doctor.probe``, started as a program of a run, prints a line of JSON for each: its kind,
the result and a remark.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Callable, NamedTuple, Optional

import patchcore_startup
from patchcore.builtin.shared.manifest import digest, make_manifest
from patchcore.errors import describe_error

__all__ = [
    "PATCHED",
    "PROBE_TIMEOUT",
    "PYTHON",
    "UNPATCHED",
    "UNREACHABLE",
    "Probe",
    "ProbeResult",
    "main",
    "probe_process",
    "probe_python",
]

PATCHED = "patched"
#: It should be patched, and is not.
UNPATCHED = "not patched"
#: It cannot be patched from outside.
UNREACHABLE = "out of reach"

#: The answer of a process: a summary of its patches and the digest of its manifest; ``None`` if it is part of no run.
ProbeResult = Optional[dict[str, str]]

#: Seconds that a child may take; some imports take long.
PROBE_TIMEOUT = 120

# For a Python that may not have patchcore on its path.
_CODE = """
import sys
startup = sys.modules.get("patchcore_startup")
if startup is None or startup.finder is None:
    print("null")
else:
    import json
    from patchcore.builtin.doctor.probe import probe_process
    print(json.dumps(probe_process()))
"""

#: This Python, for children.
PYTHON = sys.executable


def probe_process() -> ProbeResult:
    """Return the summary of this process's patches and the digest of its manifest; ``None`` outside a run.

    Examples:
        >>> from patchcore.plugin import probe_process
        >>> print(probe_process())  # outside a run
        None
    """
    if not patchcore_startup.activate():
        return None
    from patchcore.builtin.run.activation import active

    activation = active()
    if activation is None:
        return None
    manifest = make_manifest(activation.patcher.applied_plan)
    return {"summary": activation.patcher.report().summary(), "digest": digest(manifest)}


class Probe(NamedTuple):
    """A kind of child process that programs start.

    Args:
        kind: its name in the output.
        start: starts one; returns the result of :func:`probe_process` in it.
        unreachable: why patchcore cannot reach such a process, with the remedy; empty if it can.

    Examples:
        >>> import patchcore as pc
        >>> from patchcore.plugin import Probe, probe_python
        >>> class Plugin:
        ...     @pc.hookimpl
        ...     def child_probes(self):
        ...         return [Probe("python -E", lambda: probe_python("-E"))]
        >>> Plugin().child_probes()[0].kind
        'python -E'
    """

    kind: str
    start: Callable[[], ProbeResult]
    unreachable: str = ""


def main() -> None:
    """Print a line for each kind of child process."""
    here = probe_process()
    for kind, start, unreachable in (*_kinds(), *_kinds_of_plugins()):
        try:
            sight = start()
        except Exception as error:
            verdict = UNPATCHED, describe_error(error)
        else:
            verdict = _judge(sight, here, unreachable)
        print(json.dumps({"kind": kind, **dict(zip(("result", "detail"), verdict))}), flush=True)


def _judge(sight: ProbeResult, here: ProbeResult, hint: str) -> tuple[str, str]:
    if sight is None:
        return (UNREACHABLE, hint) if hint else (UNPATCHED, "it did not join the run")
    if here is not None and sight["digest"] != here["digest"]:
        return UNPATCHED, f"{sight['summary']}; its parent has: {here['summary']}"
    return PATCHED, sight["summary"]


def _kinds() -> Iterator[Probe]:
    """The kinds of child process that Python has."""
    for method in multiprocessing.get_all_start_methods():
        yield Probe(f"multiprocessing, {method}", partial(_in_pool, method))
    yield Probe("python", probe_python)
    for flag in ("-E", "-I"):
        hint = f"{flag} ignores PYTHONPATH, and patchcore is not installed in site-packages; install it there"
        yield Probe(f"python {flag}", partial(probe_python, flag), hint)
    hint = "-S disables site-packages, where patchcore is installed; run without -S"
    yield Probe("python -S", partial(probe_python, "-S"), hint)
    hint = "it does not get the environment variables of the run; pass os.environ on, or call patchcore.apply() in it"
    yield Probe("python, empty environment", partial(probe_python, environment={}), hint)


def _kinds_of_plugins() -> list[Probe]:
    from patchcore.builtin.run.activation import active

    activation = active()
    if activation is None:
        return []
    plugins = activation.patcher.plugins
    return plugins.gather("child_probes", lambda probe: isinstance(probe, Probe), "probes")


def _in_pool(method: str) -> ProbeResult:
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply_async(probe_process).get(PROBE_TIMEOUT)


def probe_python(*arguments: str, environment: Optional[Mapping[str, str]] = None) -> ProbeResult:
    """Start Python and return the result of :func:`probe_process` in it.

    Args:
        arguments: of this Python, in front of the code to run.
        environment: its variables; those of this process by default.

    Examples:
        >>> from patchcore.plugin import probe_python
        >>> print(probe_python())  # outside a run
        None
    """
    command = [PYTHON, *arguments, "-c", _CODE]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=PROBE_TIMEOUT, check=True)
    sight: ProbeResult = json.loads(done.stdout)  # ASCII
    return sight


if __name__ == "__main__":
    from patchcore.builtin.doctor import probe  # whose Probe is the one that plugins make

    probe.main()
