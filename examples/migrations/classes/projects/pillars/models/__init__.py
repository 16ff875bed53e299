from projects.pillars.models.net import PillarNet

__all__ = ["PillarNet"]
