"""Which parts of the ground objects stand on, from the points of a lidar: a plugin of mmdet."""
