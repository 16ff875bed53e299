"""Patches for diffusers on Ascend NPUs."""
