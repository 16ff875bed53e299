"""The modules of mx_driving, in files named as in the real package."""
