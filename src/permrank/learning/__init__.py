"""How estimates are learnt: the driver with its hooks, and algorithms that know no model."""
