"""Which examples are used: hold-out, shares, pairs and episodes, all by seed."""
