"""A stock mmdet training run: data set (``dataset``), detectors (``detectors``) and the run itself (``training``).

Importing the package or one of these modules imports nothing but the standard library.
"""
