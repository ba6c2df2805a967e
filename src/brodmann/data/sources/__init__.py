"""Where rows come from: files, tables in memory, the hub, named datasets."""
