"""Kernels of what people take up: neighbours of items, factors with a weight for what is missing, rows of scores."""
