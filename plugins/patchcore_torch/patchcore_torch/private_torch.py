"""The private names of torch that patchcore-torch uses, each looked up whenever it is used.

A release of torch may drop one. This module and the targets of patches are all that has to be read then; a test looks
each name up (tests/integration/test_private_names_of_torch.py).
"""

from __future__ import annotations

from patchcore.plugin import private_name_getter

#: Where each name is, by the name that this module has for it.
NAMES = {
    "TorchDispatchMode": "torch.utils._python_dispatch:TorchDispatchMode",
    "TensorBase": "torch._C:TensorBase",
    "VariableFunctions": "torch._C:_VariableFunctions",
    "builtin_table": "torch.jit._builtins:_get_builtin_table",
    "dynamo": "torch._dynamo",
    "dynamo_output_codes": "torch._dynamo.convert_frame:output_codes",
    "dynamo_parameters": "torch._dynamo.variables.functions:_spec_cache",
    "dynamo_rules": "torch._dynamo.trace_rules:get_torch_obj_rule_map",
    "functorch_config": "torch._functorch.config",
    "FunctionModifiers": "torch._jit_internal:FunctionModifiers",
    "overloads": "torch._jit_internal:_overloaded_fns",
}

__getattr__ = private_name_getter(NAMES, "patchcore-torch")
