"""Models that count distances between rankings."""
