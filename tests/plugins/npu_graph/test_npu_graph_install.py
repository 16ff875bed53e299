"""npu-graph installs, imports and lists its vendors without torch."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("npu_graph", reason="needs plugins/npu_graph")


def test_importing_and_listing_imports_neither_torch_nor_numpy(run_python: Any) -> None:
    printed = run_python(
        """
        import sys
        import npu_graph, npu_graph.cli, npu_graph.inference, npu_graph.plugin
        from patchcore.plugins import Plugins
        from patchcore.settings import LocalModule

        plugins = Plugins(discover=False, modules=[LocalModule("npu_graph.plugin")])
        for line in plugins.sections("list_sections", plugins=plugins)[0].lines:
            print(line)
        print(sorted({"torch", "numpy"} & set(sys.modules)), plugins.problems)
        """
    )
    assert printed.splitlines() == [
        "c: C, compiled by the system's compiler; cpu; plugin npu_graph.plugin; backend=npu_graph.Backend('c')",
        "reference: readable NumPy source; cpu; plugin npu_graph.plugin; backend=npu_graph.Backend('reference')",
        "[] []",
    ]


def test_every_public_name_is_there_or_needs_torch() -> None:
    import npu_graph

    for name in set(npu_graph.__all__) - set(npu_graph._LAZY):
        assert getattr(npu_graph, name).__doc__, name
    with pytest.raises(AttributeError, match="module 'npu_graph' has no attribute 'Vendors'"):
        npu_graph.Vendors
