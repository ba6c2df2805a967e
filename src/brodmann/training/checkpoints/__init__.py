"""Files that a training run keeps while it runs."""
