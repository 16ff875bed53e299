"""A small MindSpeed and a small Megatron, with the constructs of the real ones: a manager, features, an adaptor.

The manager follows ``mindspeed/patch_utils.py`` and ``features_manager/features_manager.py`` of MindSpeed 0.12.1: one
entry for each target, wrappers known by the end of their names, dummies, ``force_patch``, names that are equal bound
again in all of ``sys.modules``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Optional

from programs import Programs

import mindspeed_compat

MANAGER = """
import importlib, inspect, sys, types
from importlib.machinery import ModuleSpec


def dummy_function_wrapper(name):
    def dummy_function(*args, **kwargs):
        raise RuntimeError("function {} no exist".format(name))
    return dummy_function


class Patch:
    def __init__(self, orig_func_name, new_func, create_dummy):
        split_name = orig_func_name.rsplit(".", 1)
        if len(split_name) == 1:
            self.orig_module_name, self.orig_func_name = orig_func_name, None
        else:
            self.orig_module_name, self.orig_func_name = split_name
        self.orig_module = self.orig_func = self.patch_func = self.final_patch_func = None
        self.wrappers = []
        self.set_patch_func(dummy_function_wrapper(orig_func_name) if new_func is None else new_func)
        self.is_applied = False
        self.create_dummy = create_dummy

    def set_patch_func(self, new_func, force_patch=False):
        if hasattr(new_func, "__name__") and new_func.__name__.endswith(("wrapper", "decorator")):
            if new_func not in self.wrappers:
                self.wrappers.append(new_func)
        else:
            if self.patch_func and not force_patch:
                raise RuntimeError("the patch of {} exist !".format(self.orig_func_name))
            self.patch_func = new_func
        self.is_applied = False

    def remove_wrappers(self, names=None):
        names = [names] if isinstance(names, str) else names
        self.wrappers[:] = [w for w in self.wrappers if names is not None and w.__name__ not in names]

    def remove_patch(self):
        for key, value in sys.modules.copy().items():
            if inspect.isclass(self.orig_module) and hasattr(value, self.orig_module_name.split(".")[-1]):
                value = getattr(value, self.orig_module_name.split(".")[-1])
            try:
                found = self.orig_func_name is not None and getattr(value, self.orig_func_name, self)
            except RuntimeError:  # torch.classes, if it was imported, makes any name, and raises for what is in it
                continue
            if self.orig_func_name is not None and found is self.final_patch_func:
                setattr(value, self.orig_func_name, self.orig_func)
        self.patch_func = self.final_patch_func = None
        self.is_applied = False

    def apply_patch(self):
        if self.is_applied:
            return
        module, func = Patch.parse_path(self.orig_module_name, self.orig_func_name, self.create_dummy)
        if self.orig_module is None:
            self.orig_module, self.orig_func = module, func
        final = self.orig_func if self.patch_func is None else self.patch_func
        for wrapper in self.wrappers:
            final = wrapper(final)
        if self.orig_func_name is not None:
            setattr(self.orig_module, self.orig_func_name, final)
            for value in sys.modules.copy().values():
                if hasattr(value, self.orig_func_name) and getattr(value, self.orig_func_name) is func:
                    setattr(value, self.orig_func_name, final)
        self.is_applied, self.final_patch_func = True, final

    @staticmethod
    def parse_path(module_path, name, create_dummy):
        modules = module_path.split(".")
        for i in range(1, len(modules) + 1):
            parent, path = ".".join(modules[: i - 1]), ".".join(modules[:i])
            try:
                importlib.import_module(path)
            except ModuleNotFoundError as error:
                if parent and hasattr(importlib.import_module(parent), modules[i - 1]):
                    module = getattr(importlib.import_module(parent), modules[i - 1])
                    if hasattr(module, name):
                        return module, getattr(module, name)
                    if create_dummy:
                        return module, dummy_function_wrapper(name)
                    raise RuntimeError("no exist {} of {}".format(name, module))
                if not create_dummy:
                    raise ModuleNotFoundError(error) from error
                sys.modules[path] = types.ModuleType(path)
                sys.modules[path].__spec__ = ModuleSpec(path, None)
                if parent:
                    setattr(importlib.import_module(parent), modules[i - 1], sys.modules[path])
        found = sys.modules[module_path]
        if name is not None and not hasattr(found, name):
            setattr(found, name, None)
        return found, getattr(found, name) if name is not None else None


class MindSpeedPatchesManager:
    patches_info = {}

    @staticmethod
    def register_patch(orig_func_name, new_func=None, force_patch=False, create_dummy=False):
        if orig_func_name not in MindSpeedPatchesManager.patches_info:
            MindSpeedPatchesManager.patches_info[orig_func_name] = Patch(orig_func_name, new_func, create_dummy)
        else:
            MindSpeedPatchesManager.patches_info.get(orig_func_name).set_patch_func(new_func, force_patch)

    @staticmethod
    def remove_wrappers(orig_func_name, wrappers_name, remove_check=True):
        MindSpeedPatchesManager.patches_info[orig_func_name].remove_wrappers(wrappers_name)

    @staticmethod
    def remove_patches():
        for patch in MindSpeedPatchesManager.patches_info.values():
            patch.remove_patch()
            patch.remove_wrappers()

    @staticmethod
    def apply_patches():
        for patch in MindSpeedPatchesManager.patches_info.values():
            patch.apply_patch()
"""

FEATURES_MANAGER = """
from mindspeed.patch_utils import MindSpeedPatchesManager


class MindSpeedFeaturesManager:
    FEATURES_LIST = []

    @classmethod
    def apply_features_pre_patches(cls, args):
        for feature in cls.FEATURES_LIST:
            if feature.is_need_apply(args):
                feature.pre_register_patches(MindSpeedPatchesManager, args)
        MindSpeedPatchesManager.apply_patches()

    @classmethod
    def apply_features_patches(cls, args):
        for feature in cls.FEATURES_LIST:
            if feature.is_need_apply(args):
                feature.register_patches(MindSpeedPatchesManager, args)
        MindSpeedPatchesManager.apply_patches()

    @classmethod
    def register_features_args(cls, parser):
        for feature in cls.FEATURES_LIST:
            feature.register_args(parser)

    @classmethod
    def remove_patches(cls):
        MindSpeedPatchesManager.remove_patches()
"""

FEATURE = """
class MindSpeedFeature:
    def __init__(self, feature_name, optimization_level=2):
        self.feature_name = feature_name.lower().strip().replace("-", "_")
        self.optimization_level = optimization_level

    def is_need_apply(self, args):
        return self.optimization_level == 0 or getattr(args, self.feature_name, None)

    def register_args(self, parser):
        if self.optimization_level:
            parser.add_argument("--" + self.feature_name.replace("_", "-"), action="store_true")

    def pre_register_patches(self, pm, args):
        pass

    def register_patches(self, pm, args):
        pass
"""

FEATURES = '''
from mindspeed.features_manager.feature import MindSpeedFeature


class Requirements(MindSpeedFeature):
    """Dummies of libraries that are not installed, before Megatron is imported."""

    def __init__(self):
        super().__init__("requirements-basic", 0)

    def pre_register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch("fast_engine.pytorch.LayerNorm", functions.Norm, create_dummy=True)
        pm.register_patch("fast_engine.common.recipe.Scaling", functions.Norm, create_dummy=True)
        pm.register_patch("fast_optim.scale", create_dummy=True)
        pm.register_patch("fast_flag", create_dummy=True)


class Basic(MindSpeedFeature):
    def __init__(self):
        super().__init__("megatron-basic", 0)

    def register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch("small_megatron.config.Config.__init__", functions.config_init_wrapper)
        pm.register_patch("small_megatron.config.Config.__init_subclass__", classmethod(functions.init_subclass))
        pm.register_patch("small_megatron.config.Config.kind", functions.kind)
        pm.register_patch("small_megatron.config.NORM", functions.Norm)
        pm.register_patch("small_megatron.training.parse", functions.parse_decorator)
        pm.register_patch("small_megatron.training.new_name", functions.added)


class Rope(MindSpeedFeature):
    def __init__(self):
        super().__init__("fused-rope")

    def register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch("small_megatron.layers.rope", functions.rope_wrapper)
        pm.register_patch("small_megatron.layers.attend", functions.attend)


class Ring(MindSpeedFeature):
    """Replaces what an earlier feature wraps, and wraps what it replaces: their order is not the same everywhere."""

    def __init__(self):
        super().__init__("ring")

    def register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch("small_megatron.layers.rope", functions.ring_rope)
        pm.register_patch("small_megatron.layers.rope", functions.ring_rope_wrapper)
        pm.register_patch("small_megatron.layers.attend", functions.ring_attend_wrapper)


class Rival(MindSpeedFeature):
    def __init__(self):
        super().__init__("rival")

    def register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch("small_megatron.layers.attend", functions.rival_attend)


class Forced(MindSpeedFeature):
    def __init__(self):
        super().__init__("forced")

    def register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch("small_megatron.layers.attend", functions.rival_attend, force_patch=True)


class Spelling(MindSpeedFeature):
    """Means a place of another feature by another spelling of it."""

    def __init__(self):
        super().__init__("spelling")

    def register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch("small_megatron.config.Base.reset", functions.reset_wrapper)
        pm.register_patch("small_megatron.training.Base.reset", functions.reset)


class Spellings(MindSpeedFeature):
    """Wraps a place by another spelling, before the next feature wraps it by the first one."""

    def __init__(self, name, wrapper, target):
        super().__init__(name)
        self.wrapper = wrapper
        self.target = target

    def register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch(self.target, getattr(functions, self.wrapper))


class Engine(MindSpeedFeature):
    """Adds to a dummy of another feature, when Megatron is imported already, and wraps what that has."""

    def __init__(self):
        super().__init__("engine")

    def register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch("fast_engine.common.recipe.Format", functions.Norm)
        pm.register_patch("fast_engine.pytorch.Linear", functions.Norm, create_dummy=True)
        pm.register_patch("fast_engine.pytorch.LayerNorm", functions.norm_wrapper)


class Module(MindSpeedFeature):
    """Replaces a function by a name of its module that another package has, and another feature wraps it."""

    def __init__(self):
        super().__init__("module")

    def register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch("small_megatron.training.blocks.rope", functions.ring_rope)
        pm.register_patch("small_megatron.config.Config.Config.kind", functions.kind_wrapper)


class Later(MindSpeedFeature):
    """Made for another Megatron: one target is gone, one has other parameters, one is in a module that is gone."""

    def __init__(self):
        super().__init__("later")

    def register_patches(self, pm, args):
        from mindspeed import functions
        pm.register_patch("small_megatron.config.Config.gone", functions.kind)
        pm.register_patch("small_megatron.gone.step", functions.added)
        pm.register_patch("small_megatron.layers.attend", functions.added)


from mindspeed.features_manager.features_manager import MindSpeedFeaturesManager

MindSpeedFeaturesManager.FEATURES_LIST[:] = [
    Requirements(), Basic(), Rope(), Ring(), Rival(), Forced(), Spelling(), Module(), Engine(), Later(),
    Spellings("spelt-first", "first_wrapper", "small_megatron.config.Config.kind"),
    Spellings("spelt-second", "second_wrapper", "small_megatron.training.Config.kind"),
    Spellings("spelt-third", "third_wrapper", "small_megatron.config.Config.kind"),
    Spellings("spelt-fourth", "fourth_wrapper", "small_megatron.layers.Config.kind"),

]
'''

FUNCTIONS = """
from functools import wraps


class Norm:
    pass


def config_init_wrapper(fn):
    @wraps(fn)
    def wrapper(self, **kwargs):
        fn(self, **{k: v for k, v in kwargs.items() if k == "size"})
        self.extra = kwargs
    return wrapper


def init_subclass(cls, **kwargs):
    cls.made_by = "mindspeed"


def kind(self):
    return "npu"


def norm_wrapper(fn):
    return type("Wrapped", (fn,), {})


def first_wrapper(fn):
    return lambda self: f"first({fn(self)})"


def second_wrapper(fn):
    return lambda self: f"second({fn(self)})"


def third_wrapper(fn):
    return lambda self: f"third({fn(self)})"


def fourth_wrapper(fn):
    return lambda self: f"fourth({fn(self)})"


def kind_wrapper(fn):
    return lambda self: f"wrapped {fn(self)}"


def parse_decorator(fn):
    @wraps(fn)
    def wrapper(*args):
        return ["parsed", *fn(*args)]
    return wrapper


def added():
    return "added"


def rope_wrapper(fn):
    return lambda x: f"fused({fn(x)})"


def attend(x):
    return f"npu_attend({x})"


def ring_rope(x):
    return f"ring_rope({x})"


def ring_rope_wrapper(fn):
    return lambda x: f"ring({fn(x)})"


def ring_attend_wrapper(fn):
    return lambda x: f"ring({fn(x)})"


def rival_attend(x):
    return f"rival_attend({x})"


def reset_wrapper(fn):
    return lambda self: f"wrapped({fn(self)})"


def reset(self):
    return "reset by spelling"
"""

ARGUMENTS = """
import argparse, sys
from mindspeed.features_manager import MindSpeedFeaturesManager


def arguments(given):
    parser = argparse.ArgumentParser()
    MindSpeedFeaturesManager.register_features_args(parser)
    return parser.parse_known_args(given)[0]


def get_mindspeed_args():
    return arguments(sys.argv[1:])
"""

ADAPTOR = """
from mindspeed.args_utils import arguments, get_mindspeed_args
from mindspeed.features_manager import MindSpeedFeaturesManager


def repatch(args):
    MindSpeedFeaturesManager.remove_patches()
    MindSpeedFeaturesManager.apply_features_pre_patches(args)
    MindSpeedFeaturesManager.apply_features_patches(args)


_args = get_mindspeed_args()
MindSpeedFeaturesManager.apply_features_pre_patches(_args)
MindSpeedFeaturesManager.apply_features_patches(_args)
"""

MINDSPEED = {
    "mindspeed": "",
    "mindspeed.patch_utils": MANAGER,
    "mindspeed.args_utils": ARGUMENTS,
    "mindspeed.functions": FUNCTIONS,
    "mindspeed.features_manager": FEATURES,
    "mindspeed.features_manager.feature": FEATURE,
    "mindspeed.features_manager.features_manager": FEATURES_MANAGER,
    "mindspeed.megatron_adaptor": ADAPTOR,
}

MEGATRON = {
    "small_megatron": "",
    "small_megatron.config": """
try:
    from fast_engine.pytorch import LayerNorm
    HAVE_ENGINE = True
except ImportError:
    HAVE_ENGINE = False


class Norm: pass

NORM = Norm

class Base:
    def reset(self): return "reset"

class Config(Base):
    def __init__(self, size=1): self.size = size
    def kind(self): return "cuda"
""",
    "small_megatron.layers": """
from small_megatron.config import Config
def rope(x): return f"rope({x})"
def attend(x): return f"attend({x})"
""",
    "small_megatron.training": """
from small_megatron.config import NORM, Base, Config
from small_megatron import layers as blocks
from small_megatron.layers import attend, rope
from small_megatron.layers import rope as rotate

def parse(*args): return list(args)
def step(x): return attend(rope(x))
""",
}


def install_stack(programs: Programs, modules: Optional[Mapping[str, str]] = None) -> Programs:
    """Install mindspeed-compat for the Python of the programs, and write the small stack beside them."""
    (programs.site / "mindspeed_compat").symlink_to(Path(mindspeed_compat.__file__).parent)
    programs.install({}, "mindspeed-compat", "0.1.0", mindspeed="mindspeed_compat.plugin")
    modules = {**MINDSPEED, **MEGATRON} if modules is None else modules
    packages = {name for name in modules for other in modules if other.startswith(f"{name}.")}
    paths = {name: f"{name.replace('.', '/')}{'/__init__' * (name in packages)}.py" for name in modules}
    programs.write({paths[name]: source for name, source in modules.items()})
    return programs
