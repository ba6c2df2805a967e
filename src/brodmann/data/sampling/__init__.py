"""The order of training: which examples form the next batch."""
