"""Operators and models against eager, for a vendor to run on its own backend: a pytest plugin and its tests.

    pytest -p npu_graph.conformance --pyargs npu_graph.conformance --backend NAME --dynamic true|false|all

It is loaded by name, never by itself: ``--backend`` is a word of other projects, too. Importing it imports no torch.
"""

#: Loaded by pytest with this module.
pytest_plugins = ("npu_graph.conformance.plugin",)
