"""The examples of adopting patchcore, and the short guides, print what their pages show."""

from __future__ import annotations

import shutil

import pytest
from pages import blocks, split
from shell import ADOPTION, HOME, ROOT, Shell, sessions, walk

pytest.importorskip("torch")
pytest.importorskip("mmengine")
pytest.importorskip("mmcv._ext", reason="the examples use mmcv's compiled operators")

DOCS = ROOT / "docs"
EMULATOR = DOCS / "emulator.md"
COMING_FROM = ("dicp", "mindspeed", "ms_fmk_transplt", "mx_driving", "pyprof", "transfer_to_npu")
#: Pages whose sessions run in a folder with the files that the page shows, and the examples of adoption.
GUIDES = ("comparing", "launching", "markers", "migrate", "ops", "profiling", "verifying")
WAYS = ("zero_code", "two_lines", "patch_folder")


@pytest.mark.parametrize("way", [WAYS[0], *(pytest.param(way, marks=pytest.mark.slow) for way in WAYS[1:])])
def test_readme_of_each_way_prints_what_it_shows(shell: Shell, way: str) -> None:
    shell.folder /= way
    for session in sessions(ADOPTION / way / "README.md"):
        shell.check(session)


@pytest.mark.parametrize(
    ("guide", "session"),
    [(guide, session) for guide in GUIDES for session in sessions(DOCS / f"{guide}.md")],
    ids=lambda value: value if value in GUIDES else split(value)[-1][0],
)
def test_guide_prints_what_it_shows(shell: Shell, guide: str, session: str) -> None:
    for block in blocks(DOCS / f"{guide}.md"):
        if block.file:
            (shell.folder / block.file).write_text(block.text)
    shell.check(session)


@pytest.mark.parametrize("tool", COMING_FROM)
def test_page_for_users_of_another_tool_prints_what_it_shows(shell: Shell, tool: str) -> None:
    shell.environment.update(HOME=str(shell.home), XDG_CACHE_HOME="")  # for kernels
    walk(shell, DOCS / "coming-from" / f"{tool}.md")


def test_every_page_for_users_of_another_tool_is_walked() -> None:
    assert {page.stem for page in (DOCS / "coming-from").glob("*.md")} == {"README", *COMING_FROM}


@pytest.mark.parametrize("session", sessions(EMULATOR), ids=["one process", "report", "two ranks", "mmcv"])
def test_guide_to_the_emulator_prints_what_it_shows(shell: Shell, session: str) -> None:
    shutil.copy(ROOT / "examples" / "train_cuda.py", shell.folder)
    shell.environment["TMPDIR"] = str(shell.home)
    shell.check(session.replace("/tmp/", f"{HOME}/"))


def test_patch_folder_needs_no_pyproject(shell: Shell) -> None:
    (session,) = (text for text in sessions(ADOPTION / "patch_folder" / "README.md") if "-p migrate_to_ascend" in text)
    shell.folder /= "patch_folder"
    (shell.folder / "pyproject.toml").unlink()
    shell.check("".join(f"$ PATCHCORE_PLUGINS=mmcv {command}\n{said}" for command, said in split(session)))


@pytest.mark.parametrize("way", WAYS)
def test_readme_of_each_way_shows_the_files_that_are_there(way: str) -> None:
    shown = [block for block in blocks(ADOPTION / way / "README.md") if block.file]
    assert shown
    for block in shown:
        assert block.text in (ADOPTION / way / block.file).read_text(encoding="utf-8"), block.file


#: Prints, for every kind of child, whether it is patched.
CHILDREN = """
import multiprocessing, subprocess, sys
import numpy, patchcore
LINE

def look(_):
    return hasattr(numpy, "float")

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(look, [0])[0])
    code = "import numpy; print('subprocess', hasattr(numpy, 'float'))"
    subprocess.run([sys.executable, "-c", code])
"""


@pytest.mark.parametrize(
    ("line", "patched"),
    [
        ("patchcore.apply()", {"fork": True, "spawn": True, "forkserver": True, "subprocess": False}),
        (
            "if __name__ == '__main__': patchcore.apply()",
            {"fork": True, "spawn": False, "forkserver": False, "subprocess": False},
        ),
    ],
    ids=["at module level", "guarded"],
)
def test_two_lines_reach_what_imports_the_script_again(shell: Shell, line: str, patched: dict[str, bool]) -> None:
    (shell.folder / "children.py").write_text(CHILDREN.replace("LINE", line))
    (said,) = shell.run(["python children.py"])
    assert dict(line.split() for line in said.splitlines()) == {kind: str(value) for kind, value in patched.items()}
