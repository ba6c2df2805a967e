"""Draw results; reads only stored files, never a model."""
