"""Error classes, and the helpers that word messages."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from patchcore import errors
from patchcore.errors import (
    DeclarationError,
    PatchcoreError,
    TargetError,
    conflict_message,
    describe_error,
    did_you_mean,
)
from patchcore.planning.provenance import LOCAL_PROVENANCE, Provenance


def test_every_error_is_a_patchcore_error_and_shown_in_the_hierarchy() -> None:
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    raised = {name for name, value in classes.items() if issubclass(value, Exception)}
    assert all(issubclass(classes[name], PatchcoreError) for name in raised)
    assert raised == {name for name in raised if name in (errors.__doc__ or "")}
    assert raised <= set(errors.__all__)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.DeclarationError, ValueError),
        (errors.TargetNotFound, LookupError),
        (errors.UnknownName, LookupError),
        (errors.SettingsError, ValueError),
    ],
)
def test_an_error_is_also_the_builtin_that_callers_catch(error: type, builtin: type) -> None:
    assert issubclass(error, builtin)


def test_a_malformed_target_is_a_declaration_error() -> None:
    assert issubclass(TargetError, DeclarationError)


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("mmcv.deform_konv", ["mmcv.deform_conv", "torch.index"], "; did you mean 'mmcv.deform_conv'?"),
        ("DEFORM_CONV", ["mmcv.deform_conv", "torch.index"], "; did you mean 'mmcv.deform_conv'?"),
        ("deform_kov", ["mmcv.deform_conv", "torch.index"], "; did you mean 'mmcv.deform_conv'?"),
        ("Index", ["mmcv.deform_conv", "Torch.Index"], "; did you mean 'Torch.Index'?"),
        ("zzz", ["mmcv.deform_conv"], ""),
        ("anything", [], ""),
    ],
)
def test_a_wrong_name_gets_the_nearest_known_one(name: str, known: list[str], hint: str) -> None:
    assert did_you_mean(name, known) == hint


def test_a_conflict_names_both_patches_their_origins_and_the_lines_that_fix_it() -> None:
    first = SimpleNamespace(patch=SimpleNamespace(name="a.one"), provenance=Provenance("one", "one-dist", "1.0"))
    second = SimpleNamespace(patch=SimpleNamespace(name="b.two"), provenance=LOCAL_PROVENANCE)
    message = conflict_message("m:f", first, second)
    for part in ("m:f", "a.one (plugin one, one-dist 1.0)", "b.two (local code)", "after=['a.one'] in b.two"):
        assert part in message
    assert "conflicts=['a.one']" in message
    assert "--disable b.two" in message


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("one\n  two"), "ValueError: one two"),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError(), "RuntimeError"),
        (errors.TargetNotFound("m has no x"), "m has no x"),
        (errors.TargetNotFound(), "TargetNotFound"),
    ],
)
def test_an_error_is_one_line_with_its_type_unless_it_is_ours(error: Exception, text: str) -> None:
    assert describe_error(error) == text


def test_an_error_that_cannot_be_printed_is_still_named() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert describe_error(Broken()) == "Broken"


@pytest.mark.parametrize(
    ("provenance", "text"),
    [
        (LOCAL_PROVENANCE, "local code"),
        (Provenance("my_plugin"), "plugin my_plugin"),
        (Provenance("mmcv", "mmcv-npu-patches", "0.1"), "plugin mmcv, mmcv-npu-patches 0.1"),
        (Provenance("mmcv", "mmcv-npu-patches"), "plugin mmcv, mmcv-npu-patches (unknown version)"),
    ],
)
def test_provenance_reads_as_a_phrase(provenance: Provenance, text: str) -> None:
    assert str(provenance) == text
