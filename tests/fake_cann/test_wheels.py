"""What is read from libraries without loading them is what they have."""

from __future__ import annotations

from fake_cann import elf
from fake_cann.build import libraries
from fake_cann.wheel import library, symbols_here


def test_names_in_the_sources_are_those_in_the_libraries() -> None:
    found: set[str] = set()
    for name in ("libascendcl.so", "libhccl.so", "libopapi.so"):
        found |= elf.symbols((libraries() / name).read_bytes())[1]
    assert symbols_here() <= found
    assert "aclnnAdd" in found - symbols_here()


def test_the_installed_torch_npu_finds_all_names_of_cann() -> None:
    needed, defined = elf.symbols(library().read_bytes())
    assert {"aclrtMalloc", "MsprofReportApi"} <= needed
    assert {name for name in needed if name.startswith(("acl", "Hccl", "Msprof"))} <= symbols_here()
    assert defined
