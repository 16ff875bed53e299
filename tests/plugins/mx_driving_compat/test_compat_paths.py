"""Dotted paths of the mx_driving.patcher API: where the module ends, asked once for many paths."""

from __future__ import annotations

from typing import Any

import pytest

from mx_driving_compat.patches.paths import Libraries, target_of
from patchcore.errors import TargetError

PATHS = [
    "os.sep",
    "os.environ",
    "os.path.join",
    "os.path.split",
    "os:path.join",
    "os:path.split",
    "json.decoder.JSONDecoder.decode",
    "json.decoder.JSONDecoder.raw_decode",
    'os.environ["a.b"]',
    'os.environ["a.b"].lower',
    'os.environ["a.b"].upper',
    "no_such_library.name",
    "no_such_library.module.name",
    "no_such_library.module.other",
    "os.größe",
]
MALFORMED = ["os..sep", ".sep", "os.", "os.to ols.sep", 'os.environ["a.b', 'os.environ["a.c', "os", "", "os:"]


@pytest.mark.parametrize("turn", ["as they are", "backwards"])
def test_many_paths_have_the_targets_that_each_has_alone(turn: str) -> None:
    libraries = Libraries()
    paths = PATHS if turn == "as they are" else PATHS[::-1]
    assert [libraries.target_of(path) for path in paths] == [target_of(path) for path in paths]


@pytest.mark.parametrize("path", MALFORMED)
def test_a_malformed_one_is_refused_each_time(path: str) -> None:
    libraries = Libraries()
    messages: list[Any] = []
    for find in (libraries.target_of, libraries.target_of, target_of):
        with pytest.raises(TargetError) as refused:
            find(path)
        messages.append(str(refused.value))
    assert len(set(messages)) == 1
