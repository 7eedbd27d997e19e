"""What people take up of a whole catalogue: items by items, factors, and both together with a model of order."""
