"""The order of training: which examples make the next batch."""
