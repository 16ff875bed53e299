"""Takes the place of MindSpeed's manager: its table stays, and patchcore carries out what the table has."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence
from typing import Any, Callable, Optional

from mindspeed_compat.declared import Declared, Entry, base_name, declare, patch_name
from mindspeed_compat.registrations import FEATURES, MANAGER, Owner, Registrations, RivalFeatures, registering_owner
from patchcore import DummyImport, Patch, Patcher, SettingsError, UnknownName, Wrap
from patchcore.plugin import Candidate, did_you_mean

__all__ = ["Takeover"]

_LOG = logging.getLogger("patchcore.mindspeed")
_CLASS = f"{MANAGER}:MindSpeedPatchesManager"


class Takeover:
    """Carries out the registrations of MindSpeed's features.

    Args:
        count: count the calls of patched targets.
        disable: names of patches to leave out, ``mindspeed.FEATURE``.
    """

    def __init__(self, *, count: bool = False, disable: Sequence[str] = ()) -> None:
        self._count = count
        #: The names of the features that are left out.
        self.disabled = tuple(disable)
        self.registrations = Registrations()
        #: One for each ``apply_patches`` that had news.
        self.patchers: list[Patcher] = []
        #: Findings that MindSpeed does not report: targets with two spellings, replacements that are replaced.
        self.remarks: list[str] = []
        self._in_force: dict[int, tuple[Any, list[Any]]] = {}  # by id of an entry: the entry, and its functions
        self._dummies: set[str] = set()  # top-level packages that patches in force have made
        changes = [
            Wrap(f"{_CLASS}.register_patch", self._register),
            Wrap(f"{_CLASS}.apply_patches", self._apply),
            Wrap(f"{_CLASS}.remove_patches", self._remove),
        ]
        self._own = Patcher(
            [Patch("mindspeed.manager", changes, summary="patchcore carries out the patches of MindSpeed's features")],
            strict=True,
        )

    def connect(self) -> None:
        """Replace the functions of MindSpeed's manager, now or when it is imported.

        Raises:
            SettingsError: MindSpeed has applied patches already.
        """
        module = sys.modules.get(MANAGER)
        table = {} if module is None else module.MindSpeedPatchesManager.patches_info
        applied = [text for text, entry in table.items() if entry.is_applied]
        if applied:
            raise SettingsError(
                f"MindSpeed has applied patches already ({applied[0]}, for example); call mindspeed_compat.install() "
                "before mindspeed.megatron_adaptor is imported"
            )
        self._own.apply()

    def disconnect(self) -> None:
        """Revert the patches of all features, and give MindSpeed its manager back."""
        self._revert()
        self._own.revert()

    def news(self) -> list[Entry]:
        """Return the entries of MindSpeed's table that are not in force as they are, in its order."""
        entries = []
        for text, patch in _table().items():
            known_patch, known = self._in_force.get(id(patch), (patch, []))
            entry = Entry(text, patch, known if known_patch is patch else [])
            if not patch.is_applied and entry.functions != list(entry.known):
                entries.append(entry)
        return entries

    def declare(self, entries: list[Entry]) -> Declared:
        """Return patches for entries, under names that no patch in force has; see :func:`.declared.declare`."""
        taken = [record.name for patcher in self.patchers for record in patcher.records()]
        return declare(entries, self.registrations, taken, self._dummies)

    def _register(
        self,
        original: Callable[..., Any],
        orig_func_name: str,
        new_func: Any = None,
        force_patch: bool = False,
        create_dummy: bool = False,
    ) -> None:
        """Let MindSpeed register, and note for which feature. In the place of ``register_patch``."""
        owner = registering_owner()
        table = _table()
        before = table.get(orig_func_name)
        rival = None if before is None else before.patch_func
        if new_func is None:  # MindSpeed makes this function at the first registration only, not after remove_patches
            new_func = sys.modules[MANAGER].dummy_function_wrapper(orig_func_name)
        try:
            original(orig_func_name, new_func, force_patch, create_dummy)
        except RuntimeError as error:
            raise self._rivals(orig_func_name, rival, new_func, owner, error) from error
        entry = table[orig_func_name]
        if rival is not None and new_func is not rival and new_func is entry.patch_func:
            first = self._owner_of(before, rival)
            self._note(f"{orig_func_name}: {owner} replaces the function of {first}, with force_patch")
        self.registrations.add(entry, orig_func_name, new_func, owner)

    def _rivals(self, target: str, rival: Any, function: Any, owner: Owner, error: RuntimeError) -> Exception:
        first = self._owner_of(_table().get(target), rival)
        if first is None:
            return error
        return RivalFeatures(
            f"{error} {target} is replaced by two features of MindSpeed: {first}, with {_name(rival)}, and {owner}, "
            f"with {_name(function)}; leave out the option of one of them"
        )

    def _owner_of(self, entry: Any, function: Any) -> Optional[Owner]:
        found = self.registrations.find(entry, function)
        return None if found is None else found.owner

    def _apply(self, original: Callable[[], Any]) -> None:
        """Put in force what is new in MindSpeed's table. In the place of ``apply_patches``."""
        entries = self.news()
        if not entries:
            return
        declared = self.declare(entries)
        for text in declared.spellings:
            self._note(text)
        off = self._left_out(declared.candidates)
        patcher = Patcher(declared.candidates, order="listed", strict=True, count=self._count, disable=off)
        changes = [
            change for each in declared.candidates if each.patch.name not in off for change in each.patch.changes
        ]
        made = dict.fromkeys(change.target.module for change in changes if isinstance(change, DummyImport))
        originals = _values(declared)
        try:
            patcher.apply()
            for name in made:
                importlib.import_module(name)  # MindSpeed makes its dummies at once: code may look in sys.modules
        except BaseException:
            patcher.revert()
            raise
        self.patchers.append(patcher)
        self._dummies.update(name.partition(".")[0] for name in made)
        _update_table(entries, declared, originals)
        self._in_force.update((id(entry.patch), (entry.patch, entry.functions)) for entry in entries)

    def _left_out(self, candidates: Sequence[Candidate]) -> list[str]:
        """Return the names of the patches of features that are disabled.

        Raises:
            UnknownName: a disabled name means no feature; the message has the nearest name.
        """
        manager = getattr(sys.modules.get(FEATURES), "MindSpeedFeaturesManager", None)
        features = {feature.feature_name for feature in getattr(manager, "FEATURES_LIST", ())}
        features |= {registration.owner.name for registration in self.registrations}
        known = sorted(map(patch_name, features))
        for name in self.disabled:
            if manager is not None and name not in known:
                raise UnknownName(f"disabled: MindSpeed has no feature {name!r}{did_you_mean(name, known)}", name)
        names = [candidate.patch.name for candidate in candidates]
        return [name for name in names if base_name(name) in self.disabled]

    def _remove(self, original: Callable[[], Any]) -> None:
        """Revert the patches of all features. In the place of ``remove_patches``."""
        self._revert()
        for entry in _table().values():
            entry.patch_func = entry.final_patch_func = None
            entry.is_applied = False
            entry.remove_wrappers()

    def _revert(self) -> None:
        while self.patchers:
            self.patchers.pop().revert()
        self._in_force.clear()
        self._dummies.clear()
        self.registrations.clear()
        self.remarks.clear()

    def _note(self, remark: str) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)
            _LOG.warning("%s", remark)


def _table() -> dict[str, Any]:
    """Return MindSpeed's own table: its ``Patch`` by target."""
    table: dict[str, Any] = sys.modules[MANAGER].MindSpeedPatchesManager.patches_info
    return table


def _values(declared: Declared) -> dict[str, Any]:
    """Return the present objects at the targets, by their texts."""
    return {text: place.value() for text, place in declared.places.items()}


def _update_table(entries: list[Entry], declared: Declared, originals: dict[str, Any]) -> None:
    """Set the attributes of MindSpeed's entries that its ``apply_patches`` sets, for code that reads them."""
    for entry in entries:
        place, patch = declared.places[entry.text], entry.patch
        if patch.orig_module is None:
            patch.orig_module, patch.orig_func = place.owner(), originals[entry.text]
        patch.final_patch_func = place.value()
        patch.is_applied = True


def _name(function: Any) -> str:
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', repr(function))}"
