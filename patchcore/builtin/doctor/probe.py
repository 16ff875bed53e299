"""Start each kind of child process that training code starts, and tell which of them are patched.

``python -m patchcore.builtin.doctor.probe``, started as a program of a run, prints a line of JSON for each: its kind,
the result and what is to be known about it.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Callable, Optional

import patchcore_startup
from patchcore.builtin.manifest import digest, make_manifest
from patchcore.errors import describe_error
from patchcore.objects.modules import find_module

__all__ = ["PATCHED", "UNPATCHED", "UNREACHABLE", "look", "main"]

PATCHED = "patched"
#: It should be patched, and is not.
UNPATCHED = "not patched"
#: It cannot be patched from outside.
UNREACHABLE = "out of reach"

#: What a process saw: a summary of its patches and the digest of its manifest; ``None`` when it is part of no run.
Sight = Optional[dict[str, str]]

_PATIENCE = 120  # seconds that a child may take; torch takes some to import

# For a Python that may not have patchcore on its path.
_CODE = """
import sys
startup = sys.modules.get("patchcore_startup")
if startup is None or startup.finder is None:
    print("null")
else:
    import json
    from patchcore.builtin.doctor.probe import look
    print(json.dumps(look()))
"""

_PYTHON = sys.executable


def look() -> Sight:
    """Return what this process is patched with."""
    if not patchcore_startup.activate():
        return None
    from patchcore.builtin.run.activation import active

    activation = active()
    if activation is None:
        return None
    manifest = make_manifest(activation.patcher.applied_plan)
    return {"summary": activation.patcher.report().summary(), "digest": digest(manifest)}


class Looking:
    """A data set of one item: what the process that loads it is patched with."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Sight:
        return look()


def main() -> None:
    """Print a line for each kind of child process."""
    here = look()
    for kind, hint, start in _kinds():
        try:
            sight = start()
        except Exception as error:
            verdict = UNPATCHED, describe_error(error)
        else:
            verdict = _judge(sight, here, hint)
        print(json.dumps({"kind": kind, **dict(zip(("result", "detail"), verdict))}), flush=True)


def _judge(sight: Sight, here: Sight, hint: str) -> tuple[str, str]:
    if sight is None:
        return (UNREACHABLE, hint) if hint else (UNPATCHED, "it did not join the run")
    if here is not None and sight["digest"] != here["digest"]:
        return UNPATCHED, f"{sight['summary']}; its parent has: {here['summary']}"
    return PATCHED, sight["summary"]


def _kinds() -> Iterator[tuple[str, str, Callable[[], Sight]]]:
    """The kinds of child process: name, what to do if it is out of reach (empty if it should not be), how to look."""
    methods = multiprocessing.get_all_start_methods()
    for method in methods:
        yield f"multiprocessing, {method}", "", partial(_in_pool, method)
    yield "python", "", partial(_in_python)
    for flag in ("-E", "-I"):
        hint = f"{flag} ignores PYTHONPATH, and patchcore is not installed in site-packages; install it there"
        yield f"python {flag}", hint, partial(_in_python, flag)
    yield (
        "python -S",
        "-S disables site-packages, where patchcore is installed; run without -S",
        partial(_in_python, "-S"),
    )
    hint = "it does not get the environment variables of the run; pass os.environ on, or call patchcore.apply() in it"
    yield "python, empty environment", hint, partial(_in_python, environment={})
    if find_module("torch"):
        for method in methods:
            yield f"torch DataLoader, {method}", "", partial(_in_data_loader, method)
        yield "torchrun", "", partial(_in_python, "-m", "torch.distributed.run", "--standalone", "--no-python", _PYTHON)


def _in_pool(method: str) -> Sight:
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply_async(look).get(_PATIENCE)


def _in_python(*arguments: str, environment: Optional[Mapping[str, str]] = None) -> Sight:
    command = [_PYTHON, *arguments, "-c", _CODE]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=_PATIENCE, check=True)
    sight: Sight = json.loads(done.stdout)  # ASCII
    return sight


def _in_data_loader(method: str) -> Sight:
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        Looking(), batch_size=None, num_workers=1, multiprocessing_context=method, timeout=_PATIENCE
    )
    sight: Sight = next(iter(loader))
    return sight


if __name__ == "__main__":
    main()
