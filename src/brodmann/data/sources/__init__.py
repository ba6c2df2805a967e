"""Sources of rows: files, tables in memory, the hub, named datasets."""
