"""What is asked of a fit by maximum likelihood: errors, profiles, existence."""
