"""Rankings, their readers and writers, and the data sets."""
