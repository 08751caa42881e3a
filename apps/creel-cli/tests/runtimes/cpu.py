# The threads of the BLAS that numpy has loaded.
import ctypes
import numpy

numpy.dot(numpy.ones((2, 2)), numpy.ones((2, 2)))
with open("/proc/self/maps") as maps:
    blas = {line.split()[-1] for line in maps if "openblas" in line}
print(ctypes.CDLL(blas.pop()).openblas_get_num_threads() if blas else "no openblas")
