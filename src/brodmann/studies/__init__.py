"""Many runs from one configuration: grids, comparisons, transfer, meta-learning, plans."""
