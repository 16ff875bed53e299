"""Occupancy of the ground around a car, from the images of its cameras: a plugin of mmdet."""

from projects.occupancy.data import Scenes
from projects.occupancy.detector import OccupancyNet

__all__ = ["OccupancyNet", "Scenes"]
