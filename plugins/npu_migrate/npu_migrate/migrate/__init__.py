"""CUDA -> NPU in the source: ``patchcore migrate``.

Programs are read with libcst, names are followed to the imported objects, and rules, which are data
(:mod:`.rules`, the files in ``rules/``), say how they change. A certain change is made; an uncertain one is
reported with its place. Where :mod:`torch_npu_patches.transfer_to_npu` makes an unmodified program run, this makes the
change permanent and reviewable.

Importing this package imports neither libcst nor torch.
"""

from __future__ import annotations
