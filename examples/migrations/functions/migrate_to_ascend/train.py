"""Train the occupancy model on an NPU: tools/train.py, with the patches of patch.py."""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mx_driving.patcher import patch_mmcv_version

# what mmdet 3 and mmdet 2 were released for
patch_mmcv_version("2.0.1" if importlib.util.find_spec("mmengine") else "1.7.0")

from migrate_to_ascend.patch import generate_patcher_builder  # noqa: E402


def main():
    from tools.train import main

    main()


if __name__ == "__main__":
    with generate_patcher_builder().build():
        main()
