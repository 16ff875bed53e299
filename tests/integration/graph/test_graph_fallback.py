"""A vendor that cannot be used here: a clear error, or the vendor that the user names, and never in silence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import npu_graph
from npu_graph import FallbackWarning, UnknownVendor, VendorUnavailable
from npu_graph.listing import list_vendors, summarize
from npu_graph.options import FALLBACK, Fallback, fallback_from
from npu_graph.recording import records
from npu_graph.registry import Vendors
from patchcore.errors import SettingsError
from patchcore.plugins import Plugins
from patchcore.settings import LocalModule

ABSENT = """
    import npu_graph
    import patchcore as pc

    class Absent(npu_graph.Vendor):
        name = "absent"
        summary = "hardware that is elsewhere"
        dtypes = frozenset({{"float32"}})

        def available(self):
            {answer}

        def setup(self):
            raise AssertionError("made ready though it cannot be used")

    VENDOR = Absent()

    @pc.hookimpl(optionalhook=True)
    def register_vendors():
        return [VENDOR]
"""
SKIP = 'return pc.Skip("no driver: install acme-driver")'


@pytest.fixture
def vendors(make_package: Any, make_vendors: Callable[..., Vendors]) -> Vendors:
    """Those of this distribution and one that cannot be used."""
    make_package({"absent": ABSENT.format(answer=SKIP)})
    return make_vendors("absent")


@pytest.fixture
def without_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)


def test_without_a_fallback_the_error_says_why_and_what_else_there_is(vendors: Vendors) -> None:
    with pytest.raises(VendorUnavailable) as caught:
        vendors.choose("absent")
    assert str(caught.value).startswith("vendor absent is not usable here: no driver: install acme-driver; to go on ")
    assert str(caught.value).endswith(f"{FALLBACK}=reference")


def test_the_fallback_is_taken_and_said_once(vendors: Vendors) -> None:
    message = r"absent is not usable here: no driver.*; vendor reference stands in for it \(PATCHCORE"
    with pytest.warns(FallbackWarning, match=message):
        vendor, stands_in_for = vendors.choose("absent", Fallback("reference", FALLBACK))
    assert (vendor.name, stands_in_for) == ("reference", "absent: no driver: install acme-driver")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vendors.choose("absent", Fallback("reference", FALLBACK)).vendor is vendor


def test_a_vendor_that_can_be_used_needs_no_fallback(vendors: Vendors) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vendors.choose("reference", Fallback("absent", FALLBACK)) == (vendors.get("reference"), "")


@pytest.mark.parametrize("vendor", ["reference", "absent"])
def test_a_misspelt_fallback_is_an_error_even_where_it_is_not_needed(vendors: Vendors, vendor: str) -> None:
    with pytest.raises(UnknownVendor, match=rf"^{FALLBACK}: no plugin .*'referense'.*did you mean 'reference'\?"):
        vendors.choose(vendor, Fallback("referense", FALLBACK))


def test_without_a_compiler_the_error_says_how_to_go_on(
    make_vendors: Any, compiler_for: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(Exception, match=r"no C compiler.*apt-get install gcc"):
        compiler_for(make_vendors().get("c"))(lambda x: x + 1)(torch.ones(3))


def test_a_fallback_that_cannot_be_used_either_is_an_error_with_both_reasons(
    vendors: Vendors, without_compiler: None
) -> None:
    with pytest.raises(VendorUnavailable, match=r"no driver.*; nor is c, which fallback names: no C compiler"):
        vendors.choose("absent", Fallback("c", "fallback"))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("return False", "it says so itself"), ("return 1 / 0", "Absent.available failed: ZeroDivisionError: division")],
    ids=["no reason", "raises"],
)
def test_a_vendor_that_does_not_say_why_is_not_used(
    make_package: Any, make_vendors: Any, answer: str, reason: str
) -> None:
    make_package({"absent": ABSENT.format(answer=answer)})
    with pytest.raises(VendorUnavailable, match=f"not usable here: {reason}"):
        make_vendors("absent").choose("absent")


def test_options_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {FALLBACK: " reference "}
    assert fallback_from({}, environ) == Fallback("reference", FALLBACK)
    assert fallback_from({"fallback": "c"}, environ) == Fallback("c", "fallback")
    assert fallback_from({"fallback": None}, environ) is None
    assert fallback_from({}, {}) is None
    with pytest.raises(SettingsError, match="expected the name of a vendor"):
        fallback_from({"fallback": True})


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_model_goes_on_with_the_fallback_where_there_is_no_compiler(
    without_compiler: None, make_vendors: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    vendors = make_vendors()
    monkeypatch.setattr("npu_graph.registry.vendors", lambda: vendors)
    if how == "environment":
        monkeypatch.setenv(FALLBACK, "reference")
    backend = npu_graph.Backend("c", **({"fallback": "reference"} if how == "argument" else {}))
    before = len(records())
    with pytest.warns(FallbackWarning, match="no C compiler"):
        got = torch.compile(lambda x: x.exp() + 1, backend=backend)(torch.ones(3))
    torch.testing.assert_close(got, torch.ones(3).exp() + 1)
    (record,) = records()[before:]
    assert record.vendor == "reference"
    assert record.stands_in_for.startswith("c: no C compiler")
    section = summarize([record])
    assert section.mark
    assert any("stands in for c: no C compiler" in line for line in section.lines)


def test_what_cannot_be_used_is_listed_with_the_reason(make_package: Any) -> None:
    make_package({"absent": ABSENT.format(answer=SKIP)})
    modules = [LocalModule("npu_graph.plugin"), LocalModule("absent")]
    section = list_vendors(Plugins(discover=False, modules=modules))
    (line,) = (line for line in section.lines if line.startswith("absent: "))
    assert line.endswith("; not usable here: no driver: install acme-driver")
    assert [each["obstacle"] for each in section.data if each["vendor"] == "reference"] == [None]
