"""Camera geometry for bird's-eye-view models, on CPUs and CUDA."""

from camgeo.pooling import pool_cells
from camgeo.projection import unproject

__version__ = "0.3.1"
__all__ = ["pool_cells", "unproject"]
