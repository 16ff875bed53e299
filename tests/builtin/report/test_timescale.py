"""timescale.py: seconds on a line that does not waste its width on spells without news."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from patchcore.builtin.report.html.timescale import TimeScale

times = st.floats(min_value=0, max_value=1e6, allow_nan=False)
spells = st.lists(st.tuples(times, times).map(lambda ends: (min(ends), max(ends))), min_size=1, max_size=30)


@given(spells, st.lists(times, min_size=2, max_size=20))
@example([(0.0, 2.2e-308)], [0.0, 1.0])
@example([(0.0, 5e-324)], [1.0, 2.0])
@example([(0.0, 5e-324), (3.0, 3.0)], [0.0, 1.0])
def test_later_is_never_further_left(found: list[tuple[float, float]], asked: list[float]) -> None:
    scale = TimeScale(found)
    places = [scale(seconds) for seconds in sorted(asked)]
    assert places == sorted(places)
    assert all(0 <= place <= 100 for place in places)
    assert scale(min(begin for begin, _ in found)) == 0


@given(spells)
@example([(0.0, 4e-323)])
def test_breaks_are_where_nothing_happens_and_have_no_ticks(found: list[tuple[float, float]]) -> None:
    scale = TimeScale(found)
    assert len(scale.breaks) <= 6
    for pause in scale.breaks:
        times = [*scale.ticks(), *(seconds for spell in found for seconds in spell)]
        assert not [seconds for seconds in times if pause.begin + 1e-6 < scale(seconds) < pause.end - 1e-6]


def test_hours_without_news_do_not_hide_the_first_seconds() -> None:
    scale = TimeScale([(0.0, 5.0), (36000.0, 36001.0)])
    assert scale(5.0) == pytest.approx(95 * 5 / 6)
    (pause,) = scale.breaks
    assert (pause.begin, pause.end) == (pytest.approx(95 * 5 / 6), pytest.approx(95 * 5 / 6 + 5))
    assert pause.seconds == 35995.0


def test_short_pauses_are_as_long_as_they_are() -> None:
    scale = TimeScale([(0.0, 4.0), (6.0, 10.0)])
    assert scale.breaks == []
    assert [scale(seconds) for seconds in (0, 2.5, 5, 10)] == pytest.approx([0, 25, 50, 100])
    assert scale.ticks() == [0, 2, 4, 6, 8, 10]


def test_a_single_moment() -> None:
    scale = TimeScale([(3.0, 3.0)])
    assert scale(3.0) == 0
    assert scale.ticks() == [3.0]
