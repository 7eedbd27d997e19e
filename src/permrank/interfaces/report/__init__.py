"""Reports: one page with tables and pictures."""
