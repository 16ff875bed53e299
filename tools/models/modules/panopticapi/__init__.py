"""Stands in for panopticapi, which no package index has: mmdet reads panoptic masks by one function of it."""
