"""Verify patches: run what they replace and what they put there on the same inputs, and compare.

For each check the cases are drawn twice from the same random state. First the original runs, on the CPU; then the
patch is applied, alone, and the call runs again on the device to be verified, while it is watched whether the
replacement is reached at all.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any, Callable, NamedTuple, Optional

from patchcore.changes import Call, Change, Register, Replace, Wrap, resolve
from patchcore.check import Check
from patchcore.engine import ENGINE
from patchcore.errors import PatchcoreError, TargetError, describe_error
from patchcore.outcomes import Difference, Outcome, compare, draw, run
from patchcore.patch import Patch
from patchcore.patcher import Patcher
from patchcore.report import FAILED, SKIPPED

__all__ = ["AGREES", "DIFFERS", "NOT_REACHED", "CheckResult", "default_device", "verify"]

AGREES, DIFFERS, NOT_REACHED = "agrees", "differs", "not reached"


class CheckResult(NamedTuple):
    """What came of one check.

    Args:
        patch: name of the patch.
        check: name of the check.
        status: ``agrees``, ``differs``, ``not reached`` (the replacement was never called), ``failed`` (something
            raised) or ``skipped`` (the patch does not fit here).
        error: the largest difference found, as a share of the largest value expected; 0 where nothing was compared.
        rtol: the difference allowed.
        message: what is wrong, or why it is skipped.
    """

    patch: str
    check: str
    status: str
    error: float = 0.0
    rtol: float = 0.0
    message: str = ""

    @property
    def ok(self) -> bool:
        """False for what should make a run fail."""
        return self.status in (AGREES, SKIPPED)


def default_device() -> str:
    """Return ``"npu"`` where torch has one, real or emulated, else ``"cpu"``; imports torch if it is installed."""
    try:
        torch: Any = importlib.import_module("torch")
        return "npu" if torch.npu.is_available() else "cpu"
    except (ImportError, AttributeError):
        return "cpu"


def verify(
    patches: Iterable[Patch],
    *,
    device: Optional[str] = None,
    rounds: int = 5,
    seed: int = 0,
    around: Iterable[Patch] = (),
    done: Callable[[CheckResult], None] = lambda result: None,
) -> list[CheckResult]:
    """Verify patches one by one, each applied alone; the process is as before afterwards.

    Args:
        patches: those without ``checks=`` are passed over.
        device: where the replacements run; see :func:`default_device`.
        rounds: how many cases are drawn for each check.
        seed: other cases for another one.
        around: patches that are in force for originals and replacements alike; what lets a library be imported, say.
        done: called with each result as it is there, for progress.

    Raises:
        PatchcoreError: patches are in force, so that there is no original to compare with.
    """
    device = default_device() if device is None else device
    if ENGINE.active:
        names = ", ".join(sorted(ENGINE.active))
        raise PatchcoreError(f"cannot verify while patches are in force: {names}; revert them first")
    results = []
    supporting = list(around)
    with Patcher(supporting, enable=supporting):
        for patch in patches:
            for result in _verify_patch(patch, device, rounds, seed):
                results.append(result)
                done(result)
    return results


def _verify_patch(patch: Patch, device: str, rounds: int, seed: int) -> Iterator[CheckResult]:
    if not patch.checks:
        return
    entry = Patcher([patch], enable=patch).plan()[patch.name]
    for check in patch.checks:
        if entry.go:
            try:
                yield _verify_check(patch, check, device, rounds, seed)
            except _Raised as raised:
                yield CheckResult(patch.name, check.name, FAILED, float("inf"), check.rtol, str(raised))
        else:
            yield CheckResult(patch.name, check.name, entry.status, message=entry.reason, rtol=check.rtol)


class _Raised(Exception):
    """Something of others raised; the text says what was going on."""

    def __init__(self, doing: str, error: BaseException) -> None:
        super().__init__(f"{doing}: {describe_error(error)}")


def _verify_check(patch: Patch, check: Check, device: str, rounds: int, seed: int) -> CheckResult:
    try:
        make = resolve(check.draw)
    except Exception as error:
        raise _Raised("the check cannot be imported", error) from error
    seeds = [f"{patch.name} {check.name} {seed} {number}" for number in range(rounds)]
    expected = [_outcome(check, make, text, None, "the original raised") for text in seeds]
    patcher = Patcher([patch], enable=patch, strict=True)
    try:
        patcher.apply()
    except PatchcoreError as error:
        raise _Raised("the patch cannot be applied", error) from error
    with patcher:
        record = patcher.report()[patch.name]
        if record.status == SKIPPED:
            return CheckResult(patch.name, check.name, SKIPPED, rtol=check.rtol, message=record.reason)
        watch = _Watch(patch)
        with watch:
            actual = [_outcome(check, make, text, device, "the replacement raised") for text in seeds]
    return _judge(patch, check, actual, expected, watch, device)


def _outcome(check: Check, make: Any, seed: str, device: Optional[str], doing: str) -> Outcome:
    try:
        return run(draw(check, make, seed), device, reference=device is None)
    except Exception as error:
        raise _Raised(f"{doing}, on the case of seed {seed!r}", error) from error


def _judge(
    patch: Patch, check: Check, actual: list[Outcome], expected: list[Outcome], watch: _Watch, device: str
) -> CheckResult:
    found: list[Difference] = [compare(one, other, check.rtol) for one, other in zip(actual, expected)]
    worst = max((difference.error for difference in found), default=0.0)
    messages = [f"round {number}: {d.message}" for number, d in enumerate(found) if d.message]
    if messages:
        return CheckResult(patch.name, check.name, DIFFERS, worst, check.rtol, messages[0])
    if not watch.reached:
        message = f"no case on {device} called the replacement"
        return CheckResult(patch.name, check.name, NOT_REACHED, worst, check.rtol, message)
    return CheckResult(patch.name, check.name, AGREES, worst, check.rtol)


class _Watch:
    """Watches, inside its block, whether this thread runs code of a patch's replacements.

    Replacements that have no Python code (builtins) count as called when they are.

    Args:
        patch: applied.
    """

    def __init__(self, patch: Patch) -> None:
        self.reached = False
        self._codes: set[CodeType] = set()
        self._builtins: list[Any] = []
        for change in patch.changes:
            for value in _replacements(change):
                self._add(value)

    def __enter__(self) -> _Watch:
        self._before = sys.getprofile()
        sys.setprofile(self._see)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.setprofile(self._before)

    def _add(self, value: Any) -> None:
        value = getattr(value, "__func__", value)
        if isinstance(value, type):
            for attribute in vars(value).values():
                if isinstance(attribute, (FunctionType, staticmethod, classmethod, property)):
                    self._add(attribute.fget if isinstance(attribute, property) else attribute)
        elif isinstance(value, FunctionType):
            self._codes.add(value.__code__)
        elif callable(value):
            self._builtins.append(value)

    def _see(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            self.reached = self.reached or frame.f_code in self._codes
        elif event == "c_call" and self._builtins:
            self.reached = self.reached or argument in self._builtins


def _replacements(change: Change) -> Iterator[Any]:
    """The objects that run where a change is in force."""
    if isinstance(change, Replace) and change.factory is not None:
        try:
            yield resolve(change.target)
        except TargetError:
            return
    elif isinstance(change, (Replace, Register, Wrap, Call)):
        yield resolve(change.source)
