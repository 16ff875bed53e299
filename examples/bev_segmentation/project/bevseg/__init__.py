"""Segmentation of the ground around a car, seen by its cameras."""

from bevseg.data import Scenes
from bevseg.model import BEVSegmenter

__all__ = ["BEVSegmenter", "Scenes"]
