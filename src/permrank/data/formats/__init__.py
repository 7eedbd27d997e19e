"""Files: readers and writers of every format."""
