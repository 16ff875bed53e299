"""The program as it is: two tools patch it when they are imported."""

import tinyspeed.adaptor  # noqa: F401  # isort: skip
import clusterkit.install  # noqa: F401
from tinymegatron.training import pretrain

if __name__ == "__main__":
    pretrain()
