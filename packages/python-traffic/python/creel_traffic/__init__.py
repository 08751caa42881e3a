"""Road traffic simulation: a million cars, bitwise identical on any number of cores.

`Simulation` runs a simulation, and returns its results as NumPy arrays. The module
`creel_traffic.traci` offers the same simulation under the names of SUMO's TraCI.
"""

from .core import Simulation, dtypes

__all__ = ["Simulation", "dtypes"]
