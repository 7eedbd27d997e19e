"""What all models are made of: settings, what was learnt, who is asked, answers."""
