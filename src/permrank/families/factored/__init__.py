"""The factored Plackett-Luce model (section 3.3 of the paper)."""
