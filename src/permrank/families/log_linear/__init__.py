"""Log-linear models over whole rankings (section 4 of the paper)."""
