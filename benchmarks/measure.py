"""Time variants of one thing side by side: alternating rounds in one process, so that noise meets all of them alike."""

from __future__ import annotations

import gc
import random
import statistics
import time
import timeit
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

__all__ = ["Samples", "Timing", "interleave", "statement", "wall"]

#: Runs one round of a variant and returns how long one unit of its work took, in seconds.
Timing = Callable[[], float]


@dataclass(frozen=True)
class Samples:
    """What the rounds of one variant gave, in their order.

    Args:
        values: one number per round; seconds, or a ratio of seconds.
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The values that a quarter of the rounds stay below, and above."""
        if len(self.values) < 2:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a fraction of the median."""
        low, high = self.quartiles
        return (high - low) / 2 / abs(self.median)

    def minus(self, baseline: Samples) -> Samples:
        """Return, round by round, what this variant took longer than ``baseline`` in the same round."""
        return Samples(tuple(mine - base for mine, base in zip(self.values, baseline.values)))

    def scaled(self, factor: float) -> Samples:
        """Return every value times ``factor``."""
        return Samples(tuple(value * factor for value in self.values))

    def ratio_to(self, other: Samples) -> Samples:
        """Return, round by round, this variant over ``other``; rounds in which noise ate all of ``other`` are left out.

        Raises:
            ValueError: no round is left.
        """
        ratios = tuple(mine / theirs for mine, theirs in zip(self.values, other.values) if theirs > 0)
        if not ratios:
            raise ValueError("the alternative took no measurable time")
        return Samples(ratios)


def interleave(timings: Mapping[str, Timing], rounds: int, *, collecting: bool = False) -> dict[str, Samples]:
    """Run every variant once per round, in an order that changes from round to round; return what each took.

    One round ahead of the counted ones warms caches up. Each round starts from a collected heap.

    Args:
        timings: the variants by name.
        rounds: how many to count.
        collecting: leave the cyclic garbage collector on while measuring, for work whose allocations set it off in
            ordinary use; off by default, where it would only add chance.
    """
    taken: dict[str, list[float]] = {name: [] for name in timings}
    order = list(timings)
    shuffle = random.Random(0).shuffle
    was_enabled = gc.isenabled()
    try:
        for counted in [False] + [True] * rounds:
            shuffle(order)
            gc.enable()
            gc.collect()
            if not collecting:
                gc.disable()
            for name in order:
                if collecting:
                    gc.collect()
                seconds = timings[name]()
                if counted:
                    taken[name].append(seconds)
    finally:
        (gc.enable if was_enabled else gc.disable)()
    return {name: Samples(tuple(values)) for name, values in taken.items()}


def wall(function: Callable[[], object]) -> float:
    """Call ``function`` and return the seconds it took."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def statement(source: str, names: Mapping[str, Any], *, seconds: float) -> Timing:
    """Return a timing that runs a statement in a loop and gives the time of one execution.

    Args:
        source: the statement; the loop around it costs some nanoseconds, which differences between variants cancel.
        names: the globals it runs with.
        seconds: about how long one round is to take.
    """
    timer = timeit.Timer(source, globals=dict(names))
    number = 1000
    number = max(1, round(number * seconds / min(timer.repeat(repeat=3, number=number))))
    return lambda: timer.timeit(number) / number
