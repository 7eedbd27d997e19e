"""Numba functions on flat arrays: no classes, no I/O, no other layer."""

import os

# Idle OpenMP threads spin at their barriers by default: on a machine that does other work too, a call of 0.2 ms then
# takes up to 20. The setting is read when Numba's threads start, after this; whoever has set it keeps it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
