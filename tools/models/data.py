"""Data sets as small as a detector can be trained on, in the formats that stock configurations read.

Images are those of ``examples/mmdet_training``: coloured shapes. Their classes are called by the names of COCO, so that
a configuration keeps its number of classes. Everything is made from a seed.
"""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

from examples.mmdet_training.dataset import IMAGE_DIR, make_dataset

IMAGES = 6
#: Height and width.
SIZE = (96, 128)
INSTANCES = "instances.json"
PANOPTIC = "panoptic.json"
PANOPTIC_DIR = "panoptic"
SEMANTIC_DIR = "semantic"

#: Index of what lies around the things, among the classes of COCO's panoptic task: the first that is stuff.
STUFF = 80


def make_coco(folder: Path, seed: int = 1) -> None:
    """Write images and annotations for detection, instance and panoptic segmentation.

    Args:
        folder: where to.
        seed: of the shapes, which are of the first three classes.
    """
    annotations = make_dataset(folder, IMAGES, SIZE, seed)
    coco = json.loads(annotations.read_text(encoding="utf-8"))
    annotations.unlink()
    _make_panoptic(folder, coco, _classes("coco_panoptic"))
    coco["categories"] = _categories(_classes("coco"), STUFF)
    (folder / INSTANCES).write_text(json.dumps(coco), encoding="utf-8")


def _classes(module: str) -> tuple[str, ...]:
    """Return the classes that a module of mmdet names in its source; mmdet 2 cannot be imported without patches."""
    spec = importlib.util.find_spec("mmdet")
    if spec is None or spec.origin is None:
        raise LookupError("mmdet is not installed here: nox -s models")
    source = Path(spec.origin).with_name("datasets") / f"{module}.py"
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            if node.targets[0].id == "METAINFO" and isinstance(value, ast.Dict):
                value = value.values[[key.value for key in value.keys].index("classes")]
            elif node.targets[0].id != "CLASSES":
                continue
            return tuple(name.strip() for name in ast.literal_eval(value))
    raise LookupError(f"no classes in {source}")


def _categories(names: tuple[str, ...], things: int) -> list[dict[str, Any]]:
    return [{"id": number + 1, "name": name, "isthing": int(number < things)} for number, name in enumerate(names)]


def _make_panoptic(folder: Path, coco: dict[str, Any], classes: tuple[str, ...]) -> None:
    """Write the masks of things, and of one stuff around them; and the same as semantic masks, for other models."""
    import cv2
    import numpy as np

    for name in (PANOPTIC_DIR, SEMANTIC_DIR):
        (folder / name).mkdir(exist_ok=True)
    found = []
    for image in coco["images"]:
        segments = [{"id": 1, "category_id": STUFF + 1, "iscrowd": 0, "bbox": [0, 0, SIZE[1], SIZE[0]], "area": 1000}]
        ids = np.ones(SIZE, np.int32)
        for annotation in (one for one in coco["annotations"] if one["image_id"] == image["id"]):
            corners = np.array(annotation["segmentation"][0]).reshape(-1, 2).round().astype(np.int32)
            cv2.fillPoly(ids, [corners], len(segments) + 1)
            kept = {key: annotation[key] for key in ("category_id", "iscrowd", "bbox", "area")}
            segments.append({"id": len(segments) + 1, **kept})
        file_name = Path(image["file_name"]).with_suffix(".png").name
        zero = np.zeros_like(ids)
        cv2.imwrite(str(folder / PANOPTIC_DIR / file_name), np.stack([zero, zero, ids], axis=-1).astype(np.uint8))
        labels = np.array([0, *(segment["category_id"] - 1 for segment in segments)], np.uint8)
        cv2.imwrite(str(folder / SEMANTIC_DIR / file_name), labels[ids])
        found.append({"image_id": image["id"], "file_name": file_name, "segments_info": segments})
    panoptic = {"images": coco["images"], "annotations": found, "categories": _categories(classes, STUFF)}
    (folder / PANOPTIC).write_text(json.dumps(panoptic), encoding="utf-8")


__all__ = ["IMAGES", "IMAGE_DIR", "INSTANCES", "PANOPTIC", "PANOPTIC_DIR", "SEMANTIC_DIR", "make_coco"]
