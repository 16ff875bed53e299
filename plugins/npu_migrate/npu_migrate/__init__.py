"""CUDA programs on Ascend NPUs: their sources converted, their operators compared with those of torch_npu.

``migrate/`` converts sources: the rules in ``rules/*.toml`` are applied by ``project.py``, which returns findings.
``ops/`` traces operators and compares them with ``tables``. Each is a command that ``plugin.py`` adds. Importing this
package imports neither torch nor libcst.
"""
