"""Write plugins: from nothing, or from a ``patch.py`` for ``mx_driving.patcher``. Nothing here imports such a file."""
