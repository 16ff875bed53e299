"""In a fresh process: discovering, planning, applying and reporting import none of the libraries that are patched."""

from __future__ import annotations

from distributions import write_distribution

TARGET = {
    "visionlib": "from visionlib.ops import conv",
    "visionlib.ops": "def conv(): return 'conv'",
    "kernels": "def conv(): return 'kernel'",
    "vision_plugin": """
        import patchcore as pc

        @pc.hookimpl
        def register_patches():
            change = pc.Replace("visionlib.ops:conv", "kernels:conv")
            yield pc.Patch("visionlib.ops", change, requires="visionlib>=1", needs=["kernels"])
    """,
}


def test_applying_imports_none_of_the_target_libraries(make_package, run_python) -> None:
    folder = make_package(TARGET)
    write_distribution(folder, "visionlib", "1.2")
    write_distribution(folder, "vision-patches", "3.1", plugins={"vision": "vision_plugin"})
    run_python(
        """
        import sys
        import patchcore

        def imported(): return {"visionlib", "visionlib.ops", "kernels"} & set(sys.modules)

        patcher = patchcore.Patcher.discover(plugins=["vision"])
        assert [entry.verdict for entry in patcher.plan()] == ["apply"]
        report = patcher.apply()
        assert report["visionlib.ops"].status == "pending"
        assert report["visionlib.ops"].distribution == "vision-patches"
        str(report), report.to_json()
        assert not imported()
        from visionlib import conv
        assert conv() == "kernel"
        assert patcher.report()["visionlib.ops"].status == "applied"
        patcher.revert()
        assert sys.modules["visionlib"].conv() == "conv"
        """
    )
