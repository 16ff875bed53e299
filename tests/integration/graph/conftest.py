"""Fixtures for the graph backend: vendors of this checkout, whatever is installed, and a cache that is empty."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("npu_graph") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import torch

    from npu_graph.c.toolchain import MISSING, find_toolchain
    from npu_graph.options import CACHE_DIR, CACHE_MAX_MB, CHECK, FALLBACK, KEEP_EAGER
    from npu_graph.pipeline import compile_graph
    from npu_graph.recording import GraphRecord, records
    from npu_graph.registry import Vendors
    from npu_graph.vendor import Vendor
    from patchcore.plugins import Plugins
    from patchcore.settings import LocalModule


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, an empty cache, nothing that the environment says; dynamo forgets what it has compiled."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.delenv(KEEP_EAGER, raising=False)
    monkeypatch.delenv(CHECK, raising=False)
    monkeypatch.delenv(FALLBACK, raising=False)
    monkeypatch.delenv(CACHE_MAX_MB, raising=False)
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "kernels"))
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    torch.set_num_threads(threads)


@pytest.fixture
def make_vendors() -> Callable[..., Vendors]:
    """Return a function that returns the vendors of this distribution and of local modules."""

    def make(*modules: str) -> Vendors:
        local = [LocalModule(name) for name in ("npu_graph.plugin", *modules)]
        return Vendors(Plugins(discover=False, modules=local))

    return make


@pytest.fixture
def reference(make_vendors: Callable[..., Vendors]) -> Vendor:
    """The reference vendor with its own conversions and no others."""
    return make_vendors().get("reference")


VENDORS = ("reference", "c")


@pytest.fixture(params=VENDORS)
def vendor(request: pytest.FixtureRequest, make_vendors: Callable[..., Vendors]) -> Vendor:
    """Each vendor of this distribution in turn, with its own conversions and no others."""
    if request.param == "c" and find_toolchain() is None:
        pytest.skip(MISSING)
    return make_vendors().get(request.param)


class Compiler:
    """Compiles for a vendor and knows what was recorded since."""

    def __init__(self, vendor: Vendor) -> None:
        self.vendor = vendor
        self._before = len(records())

    def __call__(self, function: Any, *, dynamic: bool | None = False, **options: Any) -> Any:
        def backend(graph: Any, inputs: Any) -> Any:
            return compile_graph(self.vendor, graph, inputs, options)

        return torch.compile(function, backend=backend, dynamic=dynamic)

    @property
    def records(self) -> tuple[GraphRecord, ...]:
        return records()[self._before :]

    @property
    def converted(self) -> set[str]:
        """Names of the operators that the vendor ran."""
        return {node.operator for record in self.records for node in record.converted}

    @property
    def eager(self) -> dict[str, str]:
        """Why operators stayed eager."""
        return {node.operator: node.reason for record in self.records for node in record.eager}

    @property
    def outcomes(self) -> list[str]:
        """What the cache had for each subgraph."""
        return [subgraph.cache for record in self.records for subgraph in record.subgraphs]


@pytest.fixture
def compiler(reference: Vendor) -> Compiler:
    """Compile for the reference vendor."""
    return Compiler(reference)


@pytest.fixture
def compiler_of_each(vendor: Vendor) -> Compiler:
    """Compile for each vendor in turn."""
    return Compiler(vendor)


@pytest.fixture
def compiler_for() -> type[Compiler]:
    """Compile for another vendor."""
    return Compiler
