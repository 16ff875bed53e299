"""The logger of the patcher, and how it is configured."""

from mx_driving_compat.messages.logger import *  # noqa: F403
from mx_driving_compat.messages.logger import __all__ as __all__
from mx_driving_compat.messages.logger import patcher_logger as patcher_logger
