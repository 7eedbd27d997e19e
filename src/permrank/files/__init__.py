"""Files: formats that are read and written, data sets, containers, atomic writing."""
