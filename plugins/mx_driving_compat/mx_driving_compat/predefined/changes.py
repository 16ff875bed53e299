"""Predefined patches of the API, carried out by the patches of installed plugins.

``mx_driving.patcher`` brings its own replacements. Here the plugins of patchcore do (mmcv-npu-patches,
mmdet3d-npu-patches, torch-npu-patches), so that there is one implementation, with its requirements and its proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import patchcore as pc
from mx_driving_compat.messages.results import PatchResult, PatchStatus
from mx_driving_compat.patches.application import Run, Unit
from mx_driving_compat.patches.atomic import AtomicPatch
from mx_driving_compat.patches.base import BasePatch, agrees, result_of, unit_of
from mx_driving_compat.patches.changes import FillStub, guarded
from mx_driving_compat.patches.group import Patch
from mx_driving_compat.patches.paths import Libraries, dotted, import_module, is_stub
from mx_driving_compat.predefined import catalogue
from patchcore import DeclarationError, Skip, Target, TargetNotFound
from patchcore import Patch as CorePatch
from patchcore.plugin import ABSENT, APPLIED, Candidate, Change, Environment, dotted_prefixes, resolve

__all__ = ["PluginChange", "Predefined", "apply_units", "units_of"]


class PluginChange(BasePatch):
    """One change of a plugin's patch, with the members of an ``AtomicPatch``.

    Args:
        candidate: the patch, and who contributes it.
        index: of the change.
    """

    def __init__(self, candidate: Candidate, index: int) -> None:
        self.candidate = candidate
        self.index = index
        self._precheck: Any = ABSENT  # set by a program
        self._runtime_check: Any = ABSENT

    @property
    def name(self) -> str:
        return dotted(self.declared.target.pin())

    @property
    def target(self) -> str:
        """The dotted path of its target."""
        return self.name

    @property
    def aliases(self) -> list[str]:
        """Further dotted paths; names bound by value are found without."""
        return [dotted(alias.pin()) for alias in getattr(self.declared, "aliases", ())]

    @property
    def replacement(self) -> Any:
        """The replacement, ``None`` if it wraps the target or if the replacement cannot be imported."""
        try:
            return resolve(getattr(self.declared, "replacement", None))
        except (ImportError, TargetNotFound):
            return None

    @property
    def precheck(self) -> Optional[Callable[..., bool]]:
        """Returns True if the change fits. If a program sets another one, the plugin's requirements still count."""
        return self._fits if self._precheck is ABSENT else self._precheck

    @precheck.setter
    def precheck(self, check: Optional[Callable[..., bool]]) -> None:
        self._precheck = check

    @property
    def runtime_check(self) -> Optional[Callable[..., bool]]:
        """Chooses between replacement and original at each call; ``None`` if every call uses the replacement."""
        return getattr(self.declared, "when_call", None) if self._runtime_check is ABSENT else self._runtime_check

    @runtime_check.setter
    def runtime_check(self, check: Optional[Callable[..., bool]]) -> None:
        if not hasattr(self.declared, "when_call"):
            raise DeclarationError(f"{self!r} is a {self.declared.kind}, which has no runtime_check")
        self._runtime_check = check

    @property
    def declared(self) -> Change:
        """The change as the plugin declares it. Not in mx_driving.patcher."""
        return self.candidate.patch.changes[self.index]

    @property
    def change(self) -> Change:
        """The change to write, with the ``runtime_check`` that a program has set. Not in mx_driving.patcher."""
        if self._runtime_check is ABSENT:
            return self.declared
        check = None if self._runtime_check is None else guarded(self._runtime_check, self.name)
        return self.declared.evolve(when_call=check)

    @property
    def has_own_precheck(self) -> bool:
        """True if a program has set a ``precheck``. Not in mx_driving.patcher."""
        return self._precheck is not ABSENT and self._precheck is not None

    def prepare(self) -> Optional[Skip]:
        """Call the ``precheck`` that a program has set. Not in mx_driving.patcher."""
        arguments = {"target": self.target, "replacement": self.replacement, "aliases": self.aliases}
        arguments.update(replacement_wrapper=None, target_wrapper=None)
        return None if agrees(self._precheck, arguments) else Skip("precheck failed")

    def misfit(self) -> str:
        if is_stub(self.declared.target.root):  # which the change fills
            return ""
        return Environment().judge(self.candidate.patch).reason

    def _fits(self) -> bool:
        return not self.misfit()

    def apply(self) -> PatchResult:
        """Apply this change alone, without the others of its patch."""
        ((_, result),) = apply_units([group([self])])
        return result

    def unit(self, libraries: Optional[Libraries] = None) -> Unit:
        return group([self], libraries)

    def get_info(self, show_diff: bool = False) -> str:
        patch, provenance = self.candidate
        return f"{self.name}: {self.declared.kind}, by {patch.name} ({provenance})"

    def __repr__(self) -> str:
        return f"PluginChange({self.name})"


AtomicPatch.register(PluginChange)  # programs test with isinstance()


class NotProvided(BasePatch):
    """A predefined patch that no installed plugin contributes; it is always skipped.

    Args:
        name: of the predefined patch.
        distribution: that contributes it.
    """

    def __init__(self, name: str, distribution: str) -> None:
        self._name = name
        self.distribution = distribution

    @property
    def name(self) -> str:
        return self._name

    def apply(self) -> PatchResult:
        return PatchResult(PatchStatus.SKIPPED, self.name, "", self._reason())

    def misfit(self) -> str:
        return self._reason()

    def unit(self, libraries: Optional[Libraries] = None) -> Unit:
        return Unit(CorePatch(self.name), [self], prepare=lambda: Skip(self._reason()))

    def _reason(self) -> str:
        return f"no installed plugin contributes it; {pc.install_command(self.distribution)}"


class Predefined(Patch):
    """Base of the predefined patches.

    A subclass names the plugins' patches that carry it out. Its own patches are the changes of those, each of which can
    be disabled by its target.
    """

    #: Its name in API 1.0.
    legacy_name: str = ""
    #: The library that it is for.
    target_module: str = ""
    #: The names or legacy names of the plugins' patches that carry it out.
    provided_by: tuple[str, ...] = ()
    #: The distribution that has them.
    distribution: str = ""

    @classmethod
    def patches(cls, options: Optional[Mapping[str, Any]] = None) -> list[BasePatch]:
        """Return the changes that the installed plugins make for it.

        Args:
            options: values that the plugins' patches read; those that they do not have are left out.
        """
        found = catalogue.load().named(*cls.provided_by)
        if not found:
            return [NotProvided(cls.name, cls.distribution)]
        known = {c.patch.name: _known_options(c.patch, options) for c in found}
        if any(known.values()):
            found = catalogue.load({name: table for name, table in known.items() if table}).named(*cls.provided_by)
        return [PluginChange(candidate, index) for candidate in found for index in range(len(candidate.patch.changes))]

    @classmethod
    def units(cls) -> list[Unit]:
        """Return the units of the plugins' patches, each as a whole. Not in mx_driving.patcher."""
        found = catalogue.load().named(*cls.provided_by)
        roots = {change.target.root for candidate in found for change in candidate.patch.changes}
        if not found or any(map(is_stub, roots)):
            return units_of(cls.patches())
        return [Unit(patch, patch.changes, provenance) for patch, provenance in found]

    @classmethod
    def change_of(cls, target: str) -> PluginChange:
        """Return its change of a target. Not in mx_driving.patcher.

        Raises:
            ModuleNotFoundError: no installed plugin contributes it.
        """
        for patch in cls.patches():
            if isinstance(patch, PluginChange) and patch.target == target:
                return patch
        raise ModuleNotFoundError(
            f"{cls.__name__}: no installed plugin replaces {target}; {pc.install_command(cls.distribution)}"
        )

    @classmethod
    def apply_all(cls, options: Optional[Mapping[str, Any]] = None) -> list[PatchResult]:
        return [result for _, result in apply_units(units_of(cls.patches(options)))]


def _known_options(patch: CorePatch, options: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the options that a patch has and whose values differ from its own."""
    return {key: value for key, value in (options or {}).items() if patch.options.get(key, value) != value}


def group(changes: list[PluginChange], libraries: Optional[Libraries] = None) -> Unit:
    """Return the unit of some changes of a plugin's patch; the patch itself if these are all its changes.

    Another patcher that applies the plugin's patch then applies the same patch, and not a second one.

    Args:
        changes: of one patch.
        libraries: answers that other patches of the same run have got.
    """
    libraries = libraries or Libraries()
    patch, provenance = changes[0].candidate
    chosen = tuple(change.change for change in changes)
    if any(map(libraries.is_stub, {change.target.root for change in chosen})):
        return _in_stub(patch, chosen, changes)
    if chosen != patch.changes:
        patch = patch.evolve(changes=chosen)
    return Unit(patch, changes, provenance, prepare=changes[0].prepare if changes[0].has_own_precheck else None)


def _in_stub(patch: CorePatch, chosen: Sequence[Change], members: list[PluginChange]) -> Unit:
    """Return the unit that adds replacements to a stub: to its module, and to the packages around it."""
    fills = [FillStub(change.target, change) for change in chosen if change.replaces]
    packages = [
        FillStub(Target(package, fill.target.path), fill.change)
        for fill in fills
        for package in dotted_prefixes(fill.target.module)
        if package != fill.target.module
    ]
    modules = dict.fromkeys(fill.target.module for fill in (*fills, *packages))

    def prepare() -> None:
        for name in modules:
            import_module(name)

    return Unit(CorePatch(patch.name, [*fills, *packages]), members, prepare=prepare)


def units_of(patches: list[BasePatch]) -> list[Unit]:
    """Return the units of patches in order; successive changes of one plugin's patch make one unit."""
    libraries = Libraries()
    units: list[Unit] = []
    pending: list[PluginChange] = []
    taken: set[int] = set()  # the indices of those
    for patch in patches:
        change = patch if isinstance(patch, PluginChange) else None
        if pending and (change is None or change.index in taken or not _go_together(change, pending[0])):
            units.append(group(pending, libraries))
            pending, taken = [], set()
        if change is None:
            units.append(unit_of(patch, libraries))
        else:
            pending.append(change)
            taken.add(change.index)
    return [*units, group(pending, libraries)] if pending else units


def _go_together(one: PluginChange, other: PluginChange) -> bool:
    """Return whether two changes belong to the same patch, and neither has a precheck, which is about one change."""
    return one.candidate.patch is other.candidate.patch and not (one.has_own_precheck or other.has_own_precheck)


def apply_units(units: list[Unit]) -> list[tuple[Any, PatchResult]]:
    """Apply units without a patcher; return each patch with its outcome. They stay applied."""
    results = []
    for patch, outcome in Run(units, catalogue.load().settings).apply():
        patch.is_applied = outcome.status == APPLIED
        results.append((patch, result_of(patch, outcome)))
    return results
