"""Rankings broken into pairs, Bradley-Terry and latent preferences."""
