"""Containers of layers on sparse tensors (mx-driving 26.2, ``mx_driving/modules/sparse_modules.py``)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Optional, Union

from torch import Tensor, nn

from npu_emulator.mx_driving.modules.sparse_structure import SparseConvTensor


class SparseModule(nn.Module):
    """Base class of the modules that :class:`SparseSequential` gives the sparse tensor itself."""


class SparseSequential(SparseModule):
    """Modules one after the other: sparse ones get the sparse tensor, all others its features.

    Args:
        *args: modules, or one ordered dict of them.
        **kwargs: modules by name.

    Raises:
        ValueError: a name occurs twice.
    """

    def __init__(self, *args: Any, **kwargs: nn.Module) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            modules = dict(args[0])
        else:
            modules = {str(number): module for number, module in enumerate(args)}
        for name, module in modules.items():
            self.add_module(name, module)
        for name, module in kwargs.items():
            if name in self._modules:
                raise ValueError(f"mx_driving.SparseSequential: expected names that differ, found '{name}' twice")
            self.add_module(name, module)
        self._sparity_dict: dict[str, float] = {}

    def __getitem__(self, index: int) -> nn.Module:
        """Return the module at a place, which may be counted from the end."""
        return list(self._modules.values())[index]

    def __len__(self) -> int:
        return len(self._modules)

    @property
    def sparity_dict(self) -> dict[str, float]:
        """Share of occupied places in the last input of each sparse module, by the module's name."""
        return self._sparity_dict

    def add(self, module: nn.Module, name: Optional[str] = None) -> None:
        """Append a module, under its number where no name is given.

        Raises:
            KeyError: there is a module under that number already.
        """
        if name is None:
            name = str(len(self._modules))
            if name in self._modules:
                raise KeyError(f"mx_driving.SparseSequential.add: expected no module '{name}' yet; give a name")
        self.add_module(name, module)

    def forward(self, input_: Union[SparseConvTensor, Tensor]) -> Union[SparseConvTensor, Tensor]:
        """Run the modules. A module that is not sparse **replaces the features in the sparse tensor it got**.

        Args:
            input_: the input of the first module.

        Raises:
            TypeError: a sparse module got something that is not sparse.
        """
        for name, module in self._modules.items():
            if isinstance(module, SparseModule):
                if not isinstance(input_, SparseConvTensor):
                    raise TypeError(
                        f"mx_driving.SparseSequential: expected a SparseConvTensor for module '{name}' "
                        f"({type(module).__name__}), found {type(input_).__name__}. Is this mmcv's SparseConvTensor? "
                        "The classes of mmcv and mx_driving do not mix: replace all of them"
                    )
                self._sparity_dict[name] = input_.sparity
                input_ = module(input_)
            elif not isinstance(input_, SparseConvTensor):
                input_ = module(input_)
            elif len(input_.indices) > 0:
                input_.features = module(input_.features)
        return input_


class ToDense(SparseModule):
    """Gives the features on the whole grid, channels first."""

    def forward(self, x: SparseConvTensor) -> Tensor:
        """Return ``x.dense()``."""
        return x.dense()


class RemoveGrid(SparseModule):
    """Drops the tensor's ``grid``."""

    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        """Return the tensor itself."""
        x.grid = None
        return x
