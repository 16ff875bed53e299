"""Verify patches: run original and replacement on the same inputs, and compare the results.

For each check, dtype and size the cases are drawn twice from the same random state. First the original runs, on the
CPU; then the patch is applied, alone, and the call runs again on the device to be verified. A counter shows whether the
replacement is reached at all.

In float32 and float64 the original computes in the dtype itself. In 16 bits its own rounding would hide that of the
replacement: it gets the rounded inputs, computes in float32, and its results are rounded to the dtypes that it gives
when it computes in 16 bits (where it cannot on the CPU, to the dtype itself).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Callable, NamedTuple, Optional

from patchcore.builtin.verify.cases import NothingToDraw, draw, takes
from patchcore.builtin.verify.check import Case, Check, Size
from patchcore.builtin.verify.framework import CallOutcome, Execution, Framework
from patchcore.builtin.verify.reach import Reach
from patchcore.builtin.verify.speed import Speed, compare_speed
from patchcore.declare.changes import Change, resolve
from patchcore.declare.patch import Patch
from patchcore.engine.engine import ENGINE
from patchcore.errors import CONTAINED, PatchcoreError, describe_error
from patchcore.objects.extensions import Extensions
from patchcore.patcher import Patcher
from patchcore.planning.conditions import APPLY
from patchcore.plugins import Plugins
from patchcore.report import FAILED, SKIPPED

__all__ = [
    "AGREES",
    "DIFFERS",
    "NOT_REACHED",
    "CheckResult",
    "Measurement",
    "framework_of",
    "verify",
]

AGREES, DIFFERS, NOT_REACHED = "agrees", "differs", "not reached"

#: The dtypes in which an original is computed with more digits than they have.
_OF_16_BITS = ("float16", "bfloat16")


class Measurement(NamedTuple):
    """How far original and replacement are apart in one case.

    Args:
        size: of the case, ``None`` where the check draws cases of one size only.
        round: number of the case among those of its size.
        seed: text from which ``random.Random`` draws the case again.
        forward_error: the largest difference of results, as a share of the largest value expected.
        gradient_error: that of gradients, ``None`` where there are none.
        reached: whether the replacement was called.
        message: the first value that differs by more than is allowed, empty for none.
    """

    size: Optional[str]
    round: int
    seed: str
    forward_error: float
    gradient_error: Optional[float]
    reached: bool
    message: str


class CheckResult(NamedTuple):
    """The result of one check in one dtype.

    Args:
        patch: name of the patch.
        check: name of the check.
        dtype: ``"float16"``; ``None`` for cases as they were drawn.
        status: ``agrees``, ``differs``, ``not reached`` (the replacement was never called), ``failed`` (something
            raised) or ``skipped`` (the patch cannot be applied here, or the library has nothing to compare).
        forward_error: the largest difference of results found, as a share of the largest value expected; 0 where
            nothing was compared.
        gradient_error: that of gradients, ``None`` where there are none.
        rtol: the difference allowed.
        message: the fault, or why it is skipped.
        measurements: one for each case.
        speeds: one for each size.
    """

    patch: str
    check: str
    dtype: Optional[str]
    status: str
    forward_error: float = 0.0
    gradient_error: Optional[float] = None
    rtol: float = 0.0
    message: str = ""
    measurements: tuple[Measurement, ...] = ()
    speeds: tuple[Speed, ...] = ()

    @property
    def ok(self) -> bool:
        """False if ``patchcore verify`` fails because of this result."""
        return self.status in (AGREES, SKIPPED)

    @property
    def error(self) -> float:
        """The largest difference found, of results and gradients."""
        return max(self.forward_error, self.gradient_error or 0.0)


def framework_of(plugins: Plugins) -> Framework:
    """Return the framework that the hook ``verify_framework`` returns; without one, that of plain Python."""
    found = plugins.first("verify_framework", lambda one: isinstance(one, Framework), "a Framework")
    return found if isinstance(found, Framework) else Framework()


def verify(
    patches: Iterable[Patch],
    *,
    device: Optional[str] = None,
    framework: Optional[Framework] = None,
    rounds: int = 5,
    seed: int = 0,
    sizes: Sequence[Size] = tuple(Size),
    dtypes: Optional[Sequence[str]] = None,
    timing: bool = False,
    emulated: bool = False,
    around: Iterable[Patch] = (),
    extensions: Optional[Extensions] = None,
    begin: Callable[[str], None] = lambda what: None,
    done: Callable[[CheckResult], None] = lambda result: None,
) -> list[CheckResult]:
    """Verify patches one by one, each applied alone; the process is as before afterwards.

    Args:
        patches: those without ``checks=`` are passed over.
        device: where the replacements run; by default the framework's.
        framework: makes and compares the calls; by default that of the installed plugins.
        rounds: how many cases are drawn for each check, dtype and size.
        seed: other cases for another one.
        sizes: of the cases, where a check draws several.
        dtypes: only these, of the checks that are declared for dtypes; all by default.
        timing: time originals and replacements on the device, too.
        emulated: the device is emulated (hook ``emulated_devices``): nothing is timed there, and results say why.
        around: patches that are in force for originals and replacements alike, for example a stub of a missing library.
        extensions: the extensions of plugins for the patches, see :class:`patchcore.Patcher`.
        begin: called with the name of each run before it starts, for progress.
        done: called with each result, for progress.

    Returns:
        For each check one result for each of its dtypes.

    Raises:
        PatchcoreError: patches are in force, so that there is no original to compare with.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> from patchcore.plugin import verify
        >>> def numbers(rng):
        ...     return pc.Case(statistics.mean, [[1.0, 3.0]])
        >>> mean = pc.Replace("statistics:mean", max)
        >>> patch = pc.Patch("demo.mean", changes=mean, checks=pc.Check(numbers, rtol=1e-9))
        >>> [(result.status, result.message) for result in verify([patch], rounds=1)]
        [('differs', '...')]
    """
    framework = framework or framework_of(Plugins(discover=False))
    device = framework.default_device() if device is None else device
    if ENGINE.active:
        names = ", ".join(sorted(ENGINE.active))
        raise PatchcoreError(f"cannot verify while patches are applied: {names}; revert them first")
    why_not_timed = ""
    if timing and emulated:
        why_not_timed = f"{device} is emulated: its speed does not show the speed of a real one"
    how = _How(framework, device, rounds, seed, tuple(sizes), timing, why_not_timed, extensions, begin)
    results = []
    supporting = list(around)
    with Patcher(supporting, enable=supporting, extensions=extensions):
        for patch in patches:
            for result in _verify_patch(patch, how, dtypes):
                results.append(result)
                done(result)
    return results


class _How(NamedTuple):
    """How to verify; arguments of :func:`verify`, and why nothing is timed."""

    framework: Framework
    device: str
    rounds: int
    seed: int
    sizes: tuple[Size, ...]
    timing: bool
    why_not_timed: str
    extensions: Optional[Extensions]
    begin: Callable[[str], None]

    def patcher(self, patch: Patch) -> Patcher:
        """Return a Patcher of ``patch`` alone, without the patches that it needs."""
        patch = patch.evolve(needs_patches=()) if patch.needs_patches else patch
        return Patcher([patch], enable=patch, strict=True, extensions=self.extensions)


def _verify_patch(patch: Patch, how: _How, dtypes: Optional[Sequence[str]]) -> Iterator[CheckResult]:
    if not patch.checks:
        return
    entry = how.patcher(patch).plan()[patch.name]
    for check in patch.checks:
        for dtype, rtol in check.tolerances.items():
            if dtype is not None and dtypes is not None and dtype not in dtypes:
                continue
            blank = CheckResult(patch.name, check.name, dtype, entry.verdict, rtol=rtol, message=entry.reason)
            yield _CheckRun(patch, check, how, blank).result() if entry.verdict == APPLY else blank


class _Raised(Exception):
    """Code of others raised; the text begins with the step that failed."""

    def __init__(self, doing: str, error: BaseException) -> None:
        super().__init__(f"{doing}: {describe_error(error)}")


class _Drawn(NamedTuple):
    """The size, number and seed of a drawn case."""

    size: Optional[Size]
    round: int
    seed: str


class _CheckRun:
    """One check in one dtype.

    Args:
        patch: of the check; it can be applied here.
        check: see :class:`patchcore.Check`.
        how: see there.
        blank: a result in which only patch, check and dtype are filled in.
    """

    def __init__(self, patch: Patch, check: Check, how: _How, blank: CheckResult) -> None:
        self._patch = patch
        self._check = check
        self._how = how
        self._blank = blank
        self._make: Any = None
        self._measured: list[Measurement] = []

    def result(self) -> CheckResult:
        """Run it; an exception becomes part of the result."""
        try:
            return self._run()
        except NothingToDraw as nothing:
            return self._blank._replace(status=SKIPPED, message=str(nothing))
        except _Raised as raised:
            return self._finish(FAILED, str(raised))._replace(forward_error=math.inf)

    def _run(self) -> CheckResult:
        self._begin(None)
        try:
            self._make = resolve(self._check.draw)
        except Exception as error:
            raise _Raised("the check cannot be imported", error) from error
        sizes: Sequence[Optional[Size]] = self._how.sizes if takes(self._make, "size") else [None]
        cases = [self._drawn(size, number) for size in sizes for number in range(self._how.rounds)]
        expected = [self._guarded(self._expect, case, "the original raised") for case in cases]
        patcher = self._how.patcher(self._patch)
        try:
            patcher.apply()
        except PatchcoreError as error:
            raise _Raised("the patch cannot be applied", error) from error
        with patcher:
            record = patcher.report()[self._patch.name]
            if record.status == SKIPPED:
                return self._blank._replace(status=SKIPPED, message=record.reason)
            with Reach(_changes_in_force(self._patch)) as reach:
                for case, wanted in zip(cases, expected):
                    reach.reached = False
                    actual = self._guarded(self._try_out, case, "the replacement raised")
                    difference = self._how.framework.compare(actual, wanted, self._blank.rtol)
                    self._measured.append(
                        Measurement(
                            size=_text(case.size),
                            round=case.round,
                            seed=case.seed,
                            forward_error=difference.forward,
                            gradient_error=difference.gradient,
                            reached=reach.reached,
                            message=difference.message,
                        )
                    )
        result = self._judge()
        if not self._how.timing or result.status == NOT_REACHED:
            return result
        return result._replace(speeds=tuple(map(self._time, sizes)))

    def _drawn(self, size: Optional[Size], number: int) -> _Drawn:
        words = (self._patch.name, self._check.name, self._how.seed, _text(size), number)
        return _Drawn(size, number, " ".join(str(word) for word in words if word is not None))

    def _guarded(self, function: Callable[[_Drawn], CallOutcome], case: _Drawn, doing: str) -> CallOutcome:
        self._begin(_text(case.size))
        try:
            with CONTAINED:
                return function(case)
        except NothingToDraw:
            raise
        except Exception as error:
            raise _Raised(f"{doing}, on the case of seed {case.seed!r}", error) from error

    def _draw(self, case: _Drawn) -> Case:
        return draw(self._check, self._make, case.seed, size=case.size, dtype=self._blank.dtype)

    @property
    def _cast(self) -> tuple[str, ...]:
        """The dtypes through which tensors go; none where they are made in the right one."""
        dtype = self._blank.dtype
        return () if dtype is None or takes(self._make, "dtype") else (dtype,)

    def _expect(self, case: _Drawn) -> CallOutcome:
        original = partial(self._how.framework.run, reference=True)
        if not set(self._cast) & set(_OF_16_BITS):
            return original(self._draw(case), cast=self._cast)
        precise = original(self._draw(case), cast=(*self._cast, "float32"))
        try:
            plain = original(self._draw(case), cast=self._cast)
        except Exception:  # operators that the CPU has for more digits only
            plain = {}
        return self._how.framework.rounded(precise, plain, *self._cast)

    def _try_out(self, case: _Drawn) -> CallOutcome:
        return self._how.framework.run(self._draw(case), self._how.device, cast=self._cast)

    def _time(self, size: Optional[Size]) -> Speed:
        text = _text(size)
        if self._how.why_not_timed:
            return Speed(text, reason=self._how.why_not_timed)
        self._begin(text, "speed")
        case = self._drawn(size, 0)

        def prepare() -> Execution:
            return self._how.framework.execution(self._draw(case), self._how.device, cast=self._cast)

        wait = partial(self._how.framework.wait_for, self._how.device)
        speed = compare_speed(lambda: self._how.patcher(self._patch), prepare, self._how.device, wait)
        return speed._replace(size=text)

    def _judge(self) -> CheckResult:
        for measured in self._measured:
            if measured.message:
                size = "" if measured.size is None else f"{measured.size}, "
                return self._finish(DIFFERS, f"{size}round {measured.round}: {measured.message}")
        if not any(measured.reached for measured in self._measured):
            return self._finish(NOT_REACHED, f"no case on {self._how.device} called the replacement")
        return self._finish(AGREES, "")

    def _finish(self, status: str, message: str) -> CheckResult:
        gradients = [one.gradient_error for one in self._measured if one.gradient_error is not None]
        return self._blank._replace(
            status=status,
            forward_error=max((one.forward_error for one in self._measured), default=0.0),
            gradient_error=max(gradients, default=None),
            message=message,
            measurements=tuple(self._measured),
        )

    def _begin(self, *doing: Optional[str]) -> None:
        words = (self._patch.name, self._check.name, self._blank.dtype, *doing)
        self._how.begin(" ".join(word for word in words if word))


def _changes_in_force(patch: Patch) -> list[Change]:
    """Return the changes of an applied patch, with those that were found when it was applied."""
    with ENGINE.journal.lock:
        applications = [each for each in ENGINE.applications() if each.patch.name == patch.name]
        return [state.change for each in applications for state in each.states]


def _text(size: Optional[Size]) -> Optional[str]:
    return None if size is None else size.value
