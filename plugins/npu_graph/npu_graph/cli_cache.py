"""``patchcore graph cache``: lists the kernels on the disk, and removes them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Optional

from npu_graph.housekeeping import Removal, StoredKernel, older_than, remove, stored, vendors_in
from npu_graph.options import CACHE_DIR, CACHE_MAX_MB, cache_folder, cache_limit
from npu_graph.registry import vendors
from patchcore import SettingsError
from patchcore.plugin import (
    EXIT_FINDINGS,
    EXIT_OK,
    UntrustedPath,
    counted,
    did_you_mean,
    print_json,
    print_table,
    refuse_shared,
)

__all__ = ["add_action", "cache"]


def add_action(actions: Any) -> None:
    """Add the action."""
    action = actions.add_parser(
        "cache",
        example="patchcore graph cache --kernels",
        help="what kernels are kept on the disk, and removing them",
        description="List the kernels that were compiled in this and other processes, or remove them. Nothing else in "
        "the folder is touched, and processes that are running go on: they compile again what they need.",
        epilog=f"{CACHE_DIR} names the folder, {CACHE_MAX_MB} limits it: when a kernel is added, those that have not "
        f"been used for the longest go",
    )
    action.add_argument("--vendor", metavar="NAME", help="only the kernels of this vendor")
    action.add_argument(
        "--older-than", metavar="DAYS", type=_days, help="only kernels that have not been used for so long"
    )
    action.add_argument("--kernels", action="store_true", help="list each kernel, the last one used first")
    action.add_argument("--clear", action="store_true", help="remove the kernels")
    action.add_argument("--format", choices=["table", "json"], default="table", help="json goes to stdout")
    action.set_defaults(command=cache)


def cache(options: argparse.Namespace) -> int:
    """List or remove kernels; return 1 where some could not be removed, or are not used because others can change them.

    Raises:
        SettingsError: nobody contributes the vendor, and it has no kernels; the folder cannot be read.
    """
    folder = cache_folder()
    try:
        _check(options.vendor, folder)
        kernels = stored(folder, options.vendor)
    except OSError as error:
        raise SettingsError(f"the cache in {folder} cannot be read: {error}; {CACHE_DIR} names another one") from error
    if options.older_than is not None:
        kernels = older_than(kernels, options.older_than)
    if options.clear:
        done = remove(folder, kernels, leftovers=options.vendor is None and options.older_than is None)
        _tell(done, folder, options.format)
        return EXIT_FINDINGS if done.kept else EXIT_OK
    refused = _refused(folder)
    if options.format == "json":
        listed = [_described(each) for each in kernels]
        print_json({"folder": str(folder), "limit": cache_limit(), "refused": refused, "kernels": listed})
    else:
        _print(kernels, folder, each=options.kernels)
        if refused is not None:
            print(f"these kernels are not used: {refused}, or name another folder: {CACHE_DIR}=~/kernels")
    return EXIT_OK if refused is None else EXIT_FINDINGS


def _refused(folder: Path) -> Optional[str]:
    """Return why kernels of a folder are not used, ``None`` if they are."""
    try:
        for vendor in vendors_in(folder):
            refuse_shared(folder / vendor)
    except UntrustedPath as error:
        return str(error)
    return None


def _days(text: str) -> float:
    days = float(text)
    if not 0 <= days < float("inf"):
        raise ValueError
    return days


_days.__name__ = "number of days"  # for the message of argparse


def _check(vendor: Optional[str], folder: Path) -> None:
    if vendor is None:
        return
    known = sorted({*vendors_in(folder), *vendors().names})
    if vendor not in known:
        raise SettingsError(
            f"--vendor: there are no kernels of a vendor {vendor!r} in {folder}, and no plugin contributes one "
            f"(known: {', '.join(known) or 'none'}){did_you_mean(vendor, known)}"
        )


def _tell(done: Removal, folder: Path, form: str) -> None:
    if form == "json":
        listed = [_described(each) for each in done.removed]
        print_json({"folder": str(folder), "removed": listed, "kept": done.kept, "remark": done.remark})
        return
    print(f"removed {_count(done.removed)} from {folder}")
    if done.kept:
        print(f"{done.kept} could not be removed: {done.remark}")


def _print(kernels: Sequence[StoredKernel], folder: Path, *, each: bool) -> None:
    limit = cache_limit()
    print(f"{folder}: {_count(kernels)}, {'no limit' if limit is None else f'limit {_size(limit)}'}")
    rows = []
    for vendor in sorted({kernel.vendor for kernel in kernels}):
        own = [kernel for kernel in kernels if kernel.vendor == vendor]
        size = _size(sum(kernel.size for kernel in own))
        rows.append((vendor, str(len(own)), size, _time(own[-1].used), _time(own[0].used)))
    if rows:
        print_table("Vendors", ("VENDOR", "KERNELS", "SIZE", "LAST USED", "LONGEST UNUSED"), rows)
    if each and kernels:
        listed = [
            (kernel.vendor, _time(kernel.used), _size(kernel.size), _origin(kernel), str(_source(kernel)))
            for kernel in reversed(kernels)
        ]
        print_table("Kernels", ("VENDOR", "LAST USED", "SIZE", "FROM", "SOURCE"), listed)


def _described(kernel: StoredKernel) -> dict[str, Any]:
    about = {name: value for name, value in kernel.about.items() if name not in ("files", "source")}
    used = datetime.fromtimestamp(kernel.used).astimezone().isoformat(timespec="seconds")
    source = str(_source(kernel))
    return {**about, "vendor": kernel.vendor, "source": source, "size": kernel.size, "used": used}


def _origin(kernel: StoredKernel) -> str:
    """Where it comes from, for people."""
    lines = kernel.about.get("lines") or ()
    more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
    operators = kernel.about.get("operators")
    if not operators:
        return "no manifest that can be read" if not kernel.about else str(kernel.about.get("graph", ""))
    return f"{lines[0]}{more}" if lines else ", ".join(operators[:3])


def _source(kernel: StoredKernel) -> Path:
    return kernel.place / str(kernel.about.get("source", ""))


def _count(kernels: Sequence[StoredKernel]) -> str:
    return f"{counted(len(kernels), 'kernel')}, {_size(sum(kernel.size for kernel in kernels))}"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
