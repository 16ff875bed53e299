"""The patches that mx_driving.patcher comes with, done by the patches of the installed plugins."""
