"""From pixels to points."""

import torch


def unproject(pixels, depths, intrinsics, camera_to_car):
    """Return the points that cameras see at pixels, at depths, in the frame of the car.

    Args:
        pixels: x and y, (points, 2), in pixels.
        depths: (points,), in metres.
        intrinsics: (cameras, 3, 3).
        camera_to_car: rigid transformations, (cameras, 4, 4).

    Returns:
        (cameras, points, 3), in metres.
    """
    rays = torch.cat([pixels * depths[:, None], depths[:, None]], dim=-1)
    in_camera = rays @ torch.linalg.inv(intrinsics).transpose(-1, -2)
    return in_camera @ camera_to_car[:, :3, :3].transpose(-1, -2) + camera_to_car[:, None, :3, 3]
