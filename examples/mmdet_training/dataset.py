"""A tiny detection data set of coloured shapes, in COCO format, made from a seed.

Only the standard library is used: making the data must not import numpy, OpenCV or torch, because the demo applies
patches before any of them is imported.
"""

from __future__ import annotations

import json
import math
import random
import struct
import zlib
from pathlib import Path
from typing import Any

CLASSES = ("circle", "square", "triangle")
"""Category names in the order of their COCO category ids, which start at 1."""

IMAGE_DIR = "images"
"""Folder of the PNG files, below the data set's root."""

ANNOTATION_FILE = "annotations.json"
"""Name of the COCO annotation file, below the data set's root."""

_MIN_SIDE = 32  # below this a shape in a quarter of the image is only a few pixels wide
_CORNERS = {"circle": 24, "square": 4, "triangle": 3}
_COLOURS = {"circle": (205, 60, 50), "square": (60, 190, 70), "triangle": (60, 80, 210)}
_COLOUR_JITTER = 40
_BACKGROUND = (30, 90)
_BACKGROUND_NOISE = 0x0F

Polygon = list[tuple[float, float]]


def make_dataset(root: Path, images: int, size: tuple[int, int], seed: int) -> Path:
    """Write ``images`` PNG files and one COCO annotation file below ``root``.

    Every image shows two to four shapes that do not overlap, each with its bounding box, polygon and area. The same
    arguments give the same bytes: the pixels and annotations come from ``random.Random(seed)``, the PNG stream from
    this interpreter's zlib.

    Args:
        root: Folder to write to; created when missing, files of the same name are overwritten.
        images: Number of images, at least 1.
        size: Height and width of every image in pixels, each at least 32.
        seed: Seed of the random generator.

    Returns:
        The path of the annotation file, ``root / "annotations.json"``.

    Raises:
        ValueError: ``images`` or ``size`` is too small.
    """
    height, width = size
    if images < 1:
        raise ValueError(f"make_dataset: images must be at least 1, got {images}")
    if min(height, width) < _MIN_SIDE:
        raise ValueError(f"make_dataset: size (height, width) must be at least {_MIN_SIDE} pixels each, got {size}")

    rng = random.Random(seed)
    image_dir = root / IMAGE_DIR
    image_dir.mkdir(parents=True, exist_ok=True)
    coco: dict[str, Any] = {
        "info": {"description": "coloured shapes", "version": "1.0"},
        "licenses": [],
        "images": [],
        "annotations": [],
        "categories": [{"id": i, "name": name, "supercategory": "shape"} for i, name in enumerate(CLASSES, start=1)],
    }
    for image_id in range(1, images + 1):
        file_name = f"{image_id:06d}.png"
        coco["images"].append({"id": image_id, "file_name": file_name, "height": height, "width": width})
        pixels = _background(rng, height, width)
        for name, polygon in _shapes(rng, height, width):
            _fill(pixels, height, width, polygon, _colour(rng, name))
            annotation_id = len(coco["annotations"]) + 1
            coco["annotations"].append(_annotation(annotation_id, image_id, CLASSES.index(name) + 1, polygon))
        (image_dir / file_name).write_bytes(_png(pixels, height, width))

    annotation_file = root / ANNOTATION_FILE
    annotation_file.write_text(json.dumps(coco) + "\n", encoding="utf-8")
    return annotation_file


def _background(rng: random.Random, height: int, width: int) -> bytearray:
    """Return ``height * width`` RGB pixels of one grey level with a little noise."""
    level = rng.randint(*_BACKGROUND)
    return bytearray(level + (noise & _BACKGROUND_NOISE) for noise in rng.randbytes(height * width * 3))


def _colour(rng: random.Random, name: str) -> bytes:
    """Return the RGB colour of a class, jittered."""
    return bytes(channel + rng.randint(-_COLOUR_JITTER, _COLOUR_JITTER) for channel in _COLOURS[name])


def _shapes(rng: random.Random, height: int, width: int) -> list[tuple[str, Polygon]]:
    """Place two to four shapes, at most one in each quarter of the image, so that none overlap."""
    cell_height, cell_width = height / 2, width / 2
    shapes = []
    for cell in rng.sample(range(4), rng.randint(2, 4)):
        name = rng.choice(CLASSES)
        radius = rng.uniform(0.28, 0.48) * min(cell_height, cell_width)
        centre_x = (cell % 2) * cell_width + rng.uniform(radius, cell_width - radius)
        centre_y = (cell // 2) * cell_height + rng.uniform(radius, cell_height - radius)
        shapes.append((name, _regular_polygon(_CORNERS[name], centre_x, centre_y, radius)))
    return shapes


def _regular_polygon(corners: int, centre_x: float, centre_y: float, radius: float) -> Polygon:
    """Return a regular polygon standing on one of its sides; a circle is one with many corners."""
    start = math.pi / 2 + math.pi / corners
    angles = [start + 2 * math.pi * i / corners for i in range(corners)]
    return [(round(centre_x + radius * math.cos(a), 2), round(centre_y + radius * math.sin(a), 2)) for a in angles]


def _fill(pixels: bytearray, height: int, width: int, polygon: Polygon, colour: bytes) -> None:
    """Paint a convex polygon: every pixel whose centre lies inside it."""
    edges = list(zip(polygon, polygon[1:] + polygon[:1]))
    for row in range(height):
        y = row + 0.5
        crossings = [x1 + (y - y1) * (x2 - x1) / (y2 - y1) for (x1, y1), (x2, y2) in edges if (y1 <= y) != (y2 <= y)]
        if crossings:
            first = max(math.ceil(min(crossings) - 0.5), 0)
            last = min(math.floor(max(crossings) - 0.5), width - 1)
            span = max(last - first + 1, 0)
            offset = (row * width + first) * 3
            pixels[offset : offset + span * 3] = colour * span


def _annotation(annotation_id: int, image_id: int, category_id: int, polygon: Polygon) -> dict[str, Any]:
    """Return the COCO annotation of one shape; box ``[x, y, width, height]`` and area in pixels."""
    xs, ys = zip(*polygon)
    closed = zip(polygon, polygon[1:] + polygon[:1])
    area = abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in closed)) / 2
    return {
        "id": annotation_id,
        "image_id": image_id,
        "category_id": category_id,
        "bbox": [min(xs), min(ys), round(max(xs) - min(xs), 2), round(max(ys) - min(ys), 2)],
        "area": round(area, 2),
        "segmentation": [[coordinate for point in polygon for coordinate in point]],
        "iscrowd": 0,
    }


def _png(pixels: bytearray, height: int, width: int) -> bytes:
    """Encode 8-bit RGB pixels as PNG: signature, header, one compressed stream of unfiltered rows, end."""
    stride = width * 3
    rows = b"".join(b"\0" + pixels[row * stride : (row + 1) * stride] for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, data) for kind, data in chunks)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    """Return one PNG chunk: length, kind, data, and the CRC of kind and data."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
