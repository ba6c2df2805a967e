"""What a training run leaves on disk while it goes."""
