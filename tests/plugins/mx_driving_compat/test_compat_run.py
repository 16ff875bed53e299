"""``patchcore run --compat mx_driving``: migrations run as they are, workers included, and reports tell of them."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest
from migrations import install_compat
from programs import SHOP, Programs

MIGRATION = """
from mx_driving.patcher import AtomicPatch, LegacyPatch, Patcher

def twenty(item):
    return 20

def by_hand(module, options):
    module.label = lambda item: "new label"

def apply():
    return Patcher().add(
        AtomicPatch("shop.prices.price", twenty),
        LegacyPatch(by_hand, target_module="shop.labels"),
        AtomicPatch("shop.prices.absent", twenty),
        AtomicPatch("shop.prices.tax", target_wrapper=lambda original: lambda: -1),
    ).skip_import("flash_x").apply()
"""

LIBRARY = {
    **SHOP,
    "shop/prices.py": "def price(item):\n    return 10\ndef tax():\n    return 1\n",
    "shop/labels.py": "def label(item):\n    return 'label'\n",
    "migration.py": MIGRATION,
}

#: Applies its patches under the guard, and asks a worker of each kind what it has.
TRAIN = """
import multiprocessing, os, subprocess, sys

def look():
    from shop.prices import price, tax
    from shop.labels import label
    import flash_x
    return price("apple"), label("apple"), tax()

if __name__ == "__main__":
    import migration
    migration.apply()
    print("program", *look(), flush=True)
    for method in sys.argv[1:]:
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, *pool.apply(look), flush=True)
    code = "import train; print('subprocess', *train.look(), flush=True)"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


@pytest.fixture
def shop(programs: Programs) -> Programs:
    programs.write({**LIBRARY, "train.py": TRAIN})
    install_compat(programs)
    return programs


def run(shop: Programs, *arguments: str, code: int = 0, **environment: str) -> Any:
    return shop.run([*shop.patchcore, "--compat", "mx_driving"], *arguments, code=code, **environment)


class TestWorkers:
    def test_each_gets_what_can_be_named(self, shop: Programs) -> None:
        done = run(shop, "--report-dir", "out", "train.py", "fork", "spawn", "forkserver")
        assert done.stdout.splitlines() == [
            "program 20 new label -1",
            "fork 20 new label -1",
            "spawn 20 new label 1",  # a lambda stays behind
            "forkserver 20 new label 1",
            "subprocess 20 new label 1",
        ]
        assert "Traceback" not in done.stderr
        reports = [json.loads(path.read_text()) for path in (shop.folder / "out").glob("report-*.json")]
        (main,) = (report for report in reports if report["role"] == "main")
        told = json.dumps(main)
        assert "shop.prices.price" in told
        assert "target not found" in told

    def test_calls_are_counted(self, shop: Programs) -> None:
        script = """
            if __name__ == "__main__":
                import migration
                migration.apply()
                from shop.prices import price, tax
                print(price("apple"), price("pear"))
            """
        shop.write({"counted.py": textwrap.dedent(script)})
        run(shop, "--count", "--report-dir", "out", "counted.py")
        (path,) = (shop.folder / "out").glob("report-*.json")
        (section,) = (s for s in json.loads(path.read_text())["sections"] if s["title"] == "mx_driving.patcher")
        calls = {told["name"]: told["calls"] for told in section["data"]}
        assert (calls["shop.prices.price"], calls["shop.prices.tax"], calls["shop.prices.absent"]) == (2, 0, None)
        assert any(line.endswith("shop.prices.price (2 calls)") for line in section["lines"])

    def test_functions_of_the_script_itself_are_found(self, shop: Programs) -> None:
        script = """
            import multiprocessing
            from shop.prices import price

            def twenty(item):
                return 20

            def look():
                return price("apple")

            if __name__ == "__main__":
                from mx_driving.patcher import AtomicPatch, default_patcher
                default_patcher.add(AtomicPatch("shop.prices.price", twenty)).apply()
                for method in ("spawn", "forkserver"):
                    with multiprocessing.get_context(method).Pool(1) as pool:
                        print(look(), pool.apply(look), flush=True)
            """
        shop.write({"alone.py": textwrap.dedent(script)})
        assert run(shop, "alone.py").stdout == "20 20\n20 20\n"

    def test_what_cannot_be_carried_stays_behind_and_the_report_says_so(self, shop: Programs) -> None:
        script = """
            import multiprocessing
            from migration import twenty

            class Reluctant:
                def __reduce__(self):
                    raise OSError("a handle of a driver")

            class Odd:
                def __reduce__(self):
                    return int, ("no number",)

            def look():
                from shop.prices import price
                import small
                try:
                    import made
                except ImportError:
                    made = None
                return price("apple"), small.answer, made is not None

            def start():
                from mx_driving.patcher import AtomicPatch, MultiScaleDeformableAttention, Patcher

                class Local:
                    pass

                patcher = Patcher().add(MultiScaleDeformableAttention, options={"handle": Reluctant()})
                patcher.replace_import("made", exports={"Local": Local})
                patcher.replace_import("handle", exports={"handle": Reluctant()})
                patcher.replace_import("weights", exports={"table": bytes(200_000)})
                patcher.replace_import("strange", exports={"odd": Odd()})
                patcher.replace_import("small", exports={"answer": 42})
                patcher.add(AtomicPatch("shop.prices.price", twenty)).apply()

            if __name__ == "__main__":
                start()
                print(*look(), flush=True)
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(*pool.apply(look), flush=True)
            """
        shop.write({"behind.py": textwrap.dedent(script)})
        done = run(shop, "--report-dir", "out", "behind.py")
        assert done.stdout == "20 42 True\n20 42 False\n"
        assert "a patch of the parent process is not applied here: ValueError: invalid literal" in done.stderr
        reports = [json.loads(path.read_text()) for path in (shop.folder / "out").glob("report-*.json")]
        (main,) = (report for report in reports if report["role"] == "main")
        (section,) = (s for s in main["sections"] if s["title"] == "not carried to spawned workers")
        assert "Other Patchers" not in [s["title"] for s in main["sections"]]  # those of the interface have a section
        told = {row["name"]: row["reason"] for row in section["data"]}
        assert set(told) == {"replace made", "replace handle", "replace weights", "MultiScaleDeformableAttention"}
        assert told["replace handle"] == "OSError: a handle of a driver"
        assert "too many for the environment of a process" in told["replace weights"]

    def test_none_where_the_block_has_ended(self, shop: Programs) -> None:
        script = """
            import subprocess, sys
            from mx_driving.patcher import AtomicPatch, Patcher
            from migration import twenty

            code = "from shop.prices import price; print(price('apple'), flush=True)"
            if __name__ == "__main__":
                with Patcher().add(AtomicPatch("shop.prices.price", twenty)):
                    subprocess.run([sys.executable, "-c", code], check=True)
                subprocess.run([sys.executable, "-c", code], check=True)
            """
        shop.write({"block.py": textwrap.dedent(script)})
        assert run(shop, "block.py").stdout == "20\n10\n"


class TestTheProgram:
    def test_the_setting_does_the_same(self, shop: Programs) -> None:
        shop.write({"pyproject.toml": "[tool.patchcore]\ncompat = ['mx_driving']\n"})
        assert shop.run(shop.patchcore, "train.py").stdout.startswith("program 20 new label -1\n")
