"""Rows: one comparison each, with the limit it is held to and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from benchmarks.measure import Samples

__all__ = ["ABOUT_THE_SAME", "Budget", "Identity", "Limit", "RatioLimit", "Row", "TimeLimit", "compare", "skipped"]

#: Up to this ratio two costs that should not differ count as the same: "linear", "whatever the number of patches".
#: With ten times the patches, a quadratic cost is ten times as much for each.
ABOUT_THE_SAME = 2.0


@dataclass(frozen=True)
class Budget:
    """How much measuring a run can afford.

    Args:
        quick: few rounds, small numbers of things: shows that everything runs, judges nothing.
    """

    quick: bool = False

    def rounds(self, full: int) -> int:
        """Return how many rounds to take where ``full`` is right for judging."""
        return 3 if self.quick else full

    def size(self, full: int) -> int:
        """Return how many things to make where ``full`` is what a limit speaks of."""
        return full // 10 if self.quick else full


class Limit:
    """What a row is held to; ``text`` is how the table shows it."""

    text: str

    def excess(self, ours: Samples, ratio: Optional[Samples]) -> float:
        """Return how far over the limit the row is, as a factor; 1 or less is met."""
        raise NotImplementedError


class TimeLimit(Limit):
    """The median of ours is at most this many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.text = f"<= {duration(seconds)}"

    def excess(self, ours: Samples, ratio: Optional[Samples]) -> float:
        return ours.median / self.seconds


class RatioLimit(Limit):
    """The median ratio is at most this."""

    def __init__(self, at_most: float, text: str = "") -> None:
        self.at_most = at_most
        self.text = text or f"<= {at_most:g}x"

    def excess(self, ours: Samples, ratio: Optional[Samples]) -> float:
        assert ratio is not None
        return ratio.median / self.at_most


class Identity(Limit):
    """Both are the same object, so that there is nothing to measure; the times are there to be seen."""

    text = "same object"

    def __init__(self, holds: bool) -> None:
        self.holds = holds

    def excess(self, ours: Samples, ratio: Optional[Samples]) -> float:
        return 1.0 if self.holds else float("inf")


@dataclass(frozen=True)
class Row:
    """One comparison.

    Args:
        subject: the benchmark it belongs to.
        what: what is timed.
        alternative: what it is compared with.
        ours, theirs: seconds per round; ``None`` where the row was skipped, ``theirs`` also where only ours could run.
        ratio: ours over theirs, round by round.
        limit: what it is held to, as text; empty where there is no limit.
        met: whether it is within the limit; ``None`` where there is none or it was not judged.
        verdict: the same in words.
    """

    subject: str
    what: str
    alternative: str
    ours: Optional[Samples] = None
    theirs: Optional[Samples] = None
    ratio: Optional[Samples] = None
    limit: str = ""
    met: Optional[bool] = None
    verdict: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON view; times in seconds."""
        view: dict[str, Any] = {name: getattr(self, name) for name in ("subject", "what", "alternative")}
        view.update({name: _view(getattr(self, name)) for name in ("ours", "theirs", "ratio")})
        view.update({name: getattr(self, name) for name in ("limit", "met", "verdict")})
        return view

    @classmethod
    def from_dict(cls, view: Mapping[str, Any]) -> Row:
        """Return the row that :meth:`to_dict` was called on."""
        samples = {name: Samples(tuple(view[name]["rounds"])) for name in ("ours", "theirs", "ratio") if view[name]}
        return cls(**{**view, "ours": None, "theirs": None, "ratio": None, **samples})


def compare(
    subject: str,
    what: str,
    alternative: str,
    ours: Samples,
    theirs: Samples,
    *,
    budget: Budget,
    limit: Optional[Limit] = None,
) -> Row:
    """Return the row that compares two variants, judged against ``limit`` unless the run is a quick one."""
    try:
        ratio = ours.ratio_to(theirs)
    except ValueError as error:  # other programs have taken the processor in every round
        return Row(subject, what, alternative, ours, theirs, verdict=f"not measured: {error}; the machine is too busy")
    met, verdict = None, ""
    if limit is not None and budget.quick:
        verdict = "not judged in a quick run"
    elif limit is not None:
        excess = limit.excess(ours, ratio)
        met = excess <= 1
        verdict = "met" if met else "MISSED" if excess == float("inf") else f"MISSED, {excess:.3f}x the limit"
    return Row(subject, what, alternative, ours, theirs, ratio, limit.text if limit else "", met, verdict)


def skipped(subject: str, what: str, alternative: str, why: str) -> Row:
    """Return the row of a comparison that cannot be made here."""
    return Row(subject, what, alternative, verdict=f"skipped: {why}")


def duration(seconds: float) -> str:
    """Return a time with three digits and the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _view(samples: Optional[Samples]) -> Optional[dict[str, Any]]:
    if samples is None:
        return None
    return {"median": samples.median, "quartiles": list(samples.quartiles), "rounds": list(samples.values)}
