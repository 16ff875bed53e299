"""Reads the calls of mx_driving.patcher in a file: patches, changes of imports, settings."""
