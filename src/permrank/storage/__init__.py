"""Files that appear whole or not at all: atomic writing, and a checked container of tensors."""
