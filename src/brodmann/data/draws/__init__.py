"""Choose the examples to use: hold-out, shares, pairs and episodes, all by seed."""
