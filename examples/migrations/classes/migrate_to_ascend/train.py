"""Train the model of pillars on NPUs: tools/train.py, with the patches of patch.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mx_driving.patcher import default_patcher

from migrate_to_ascend.patch import configure_patcher

configure_patcher(default_patcher, performance="--performance" in sys.argv)
default_patcher.apply()

from tools.train import main  # noqa: E402

if __name__ == "__main__":
    main()
