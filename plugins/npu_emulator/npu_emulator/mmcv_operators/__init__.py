"""The operators of mmcv's compiled module ``mmcv._ext`` on the emulated device.

A build of mmcv for NPUs has kernels of its own, in ``mmcv/ops/csrc/pytorch/npu``; which ones depends on the release
(``builds.py``). Where the NPU is emulated, those operators take NPU tensors, and every other one refuses them with
:class:`npu_emulator.NotEmulated`. Calls with CPU tensors are mmcv's own, as before.

``hook.py`` puts the operators in place when ``mmcv._ext`` is imported. ``dispatching.py`` decides call by call;
``host.py`` runs mmcv's CPU kernels on the memory of NPU tensors, and the other modules are the operators that have no
CPU kernel, in plain PyTorch.
"""
