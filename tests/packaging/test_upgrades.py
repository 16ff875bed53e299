"""Upgrading a real library: check names exactly the functions that do something else, and no change of looks.

Every function and method of the library is the target of a patch. Which of them have changed is told here by other
means: the syntax trees that Python itself dumps, looked up by the place of the definition.
"""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

import pytest

PLUGIN = """
import json
from pathlib import Path

import patchcore as pc


def as_before(original, *args, **kwargs):
    return original(*args, **kwargs)


@pc.hookimpl
def register_patches():
    targets = json.loads(Path(__file__).with_name("targets.json").read_text())
    modules = {}
    for target in targets:
        modules.setdefault(target.partition(":")[0], []).append(pc.Wrap(target, as_before))
    return [pc.Patch(f"every.{module}", changes) for module, changes in modules.items()]
"""


class Upgrade(NamedTuple):
    """Two releases of a library, and some of what is known of them from their release notes and a look at both."""

    library: str
    old: str
    new: str
    changed: tuple[str, ...]
    gone: tuple[str, ...]
    looks: tuple[str, ...]


UPGRADES = (
    Upgrade(
        "mmengine",
        "0.10.1",
        "0.10.7",
        ("mmengine.device.utils:is_mlu_available",),
        ("mmengine._strategy.colossalai:CollosalAIModelWrapper.train_step",),
        # the third has other annotations
        (
            "mmengine.config.config:Config.fromfile",
            "mmengine.config.config:Config.pretty_text",
            "mmengine.config.config:Config.__init__",
        ),
    ),
    Upgrade(
        "mmdet",
        "3.2.0",
        "3.3.0",
        ("mmdet.datasets.coco:CocoDataset.parse_data_info", "mmdet.apis.det_inferencer:DetInferencer.__call__"),
        (),
        ("mmdet.models.losses.triplet_loss:TripletLoss.hard_mining_triplet_loss_forward",),
    ),
)

Definitions = dict[str, list[tuple[str, str]]]


def definitions(folder: Path, library: str) -> Definitions:
    """The functions and methods of a library: text and syntax tree of each definition, by target."""
    found: Definitions = {}

    def collect(source: str, module: str, body: list[ast.stmt], owner: tuple[str, ...]) -> None:
        for statement in body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_source_segment(source, statement) or ""
                target = f"{module}:{'.'.join((*owner, statement.name))}"
                found.setdefault(target, []).append((text, ast.dump(without_texts(statement))))
            elif isinstance(statement, ast.ClassDef):
                collect(source, module, statement.body, (*owner, statement.name))

    for path in sorted((folder / library).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        module = parts[:-1] if parts[-1] == "__init__" else parts
        if all(part.isidentifier() for part in module):  # mmdet has scripts in a folder .mim
            source = path.read_text(encoding="utf-8")
            collect(source, ".".join(module), ast.parse(source).body, ())
    return found


def without_texts(function: ast.AST) -> ast.AST:
    """Without docstrings and annotations: neither changes how the function works."""
    for node in ast.walk(function):
        for annotation in ("returns", "annotation"):
            if getattr(node, annotation, None) is not None and not isinstance(node, ast.AnnAssign):
                setattr(node, annotation, None)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            texts = [s for s in body if isinstance(s, ast.Expr) and isinstance(getattr(s.value, "value", None), str)]
            node.body = [statement for statement in body if statement not in texts] or [ast.Pass()]
    return function


def with_other_looks(path: Path) -> None:
    """Put a comment above every statement that begins with a keyword, and a text in front of every module."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    places = []
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        starts = before in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
        if starts and token.type == tokenize.NAME and token.string in ("def", "return", "for", "if", "raise"):
            places.append(token.start)
        before = token.type
    for row, column in reversed(places):
        lines.insert(row - 1, f"{' ' * column}# as before\n")
    path.write_text("".join(lines), encoding="utf-8")


def install(folder: Path, library: str, version: str) -> Path:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, f"--target={folder}", f"{library}=={version}"], check=True, timeout=300)
    return folder


class Site:
    """A folder with the plugin, whose patches are for whatever library is on the path."""

    def __init__(self, folder: Path, targets: list[str]) -> None:
        self.folder = folder
        (folder / "every.py").write_text(PLUGIN)
        (folder / "targets.json").write_text(json.dumps(targets))

    def patchcore(self, library: Path, *arguments: str, code: int) -> str:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PATCHCORE_")}
        paths = [str(library), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        environment.update(PYTHONPATH=os.pathsep.join(paths), PATCHCORE_PLUGINS="")
        command = [sys.executable, "-m", "patchcore", *arguments, "--module=every"]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def named(self, library: Path, *, code: int) -> dict[str, str]:
        """What check says of the targets, by target."""
        found = json.loads(self.patchcore(library, "check", "--format=json", code=code))["findings"]
        assert {finding["kind"] for finding in found} <= {"gone", "signature", "copy", "body"}
        return {finding["message"].partition(": ")[0]: finding["message"] for finding in found}


@pytest.fixture(scope="module", params=UPGRADES, ids=[upgrade.library for upgrade in UPGRADES])
def upgrade(request: pytest.FixtureRequest) -> Upgrade:
    return request.param


@pytest.fixture(scope="module")
def old(upgrade: Upgrade, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("old"), upgrade.library, upgrade.old)


@pytest.fixture(scope="module")
def new(upgrade: Upgrade, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("new"), upgrade.library, upgrade.new)


@pytest.fixture(scope="module")
def before(upgrade: Upgrade, old: Path) -> Definitions:
    return definitions(old, upgrade.library)


@pytest.fixture(scope="module")
def site(old: Path, before: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("site"), list(before))
    site.patchcore(old, "fingerprint", "--no-import", "every", code=0)
    return site


def test_check_names_exactly_what_has_changed(
    upgrade: Upgrade, site: Site, old: Path, new: Path, before: Definitions
) -> None:
    assert site.named(old, code=0) == {}
    after = definitions(new, upgrade.library)
    trees = {target: [tree for _, tree in found] for target, found in after.items()}
    changed = {target for target, found in before.items() if [tree for _, tree in found] != trees.get(target)}
    looks = {target for target, found in before.items() if target not in changed and found != after[target]}
    # the other means are no good if they do not know what is known
    assert changed.issuperset([*upgrade.changed, *upgrade.gone])
    assert looks.issuperset(upgrade.looks)
    assert 0 < len(changed) + len(looks) < len(before) / 4

    named = site.named(new, code=1)
    # no finding: the wrapper has no name of the change; of a short function every change is one
    left_out = changed - set(named)
    assert set(named) <= changed
    assert all(target in after and after[target][-1][0].count("\n") >= 4 for target in left_out)
    assert 0 < len(left_out) < len(changed)
    assert {target for target, message in named.items() if ": gone since" in message} == changed - after.keys()
    assert changed - after.keys() >= set(upgrade.gone)


def test_the_same_release_written_otherwise_is_no_finding(
    upgrade: Upgrade, site: Site, tmp_path: Path, before: Definitions
) -> None:
    rewritten = install(tmp_path / "rewritten", upgrade.library, upgrade.old)
    for path in (rewritten / upgrade.library).rglob("*.py"):
        with_other_looks(path)
    options = ["--isolated", "--quiet", "--line-length=60", "--config=format.quote-style='single'", "--no-cache"]
    subprocess.run([sys.executable, "-m", "ruff", "format", *options, rewritten / upgrade.library], check=True)
    after = definitions(rewritten, upgrade.library)
    same = [target for target in before if before[target][0][0] == after[target][0][0]]
    assert len(same) < len(before) / 2  # the others look otherwise
    assert site.named(rewritten, code=0) == {}
