"""Distances between rankings: Mallows models and Kemeny orders."""
