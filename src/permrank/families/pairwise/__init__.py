"""Models of comparisons in pairs."""
