"""Meta-learning: outer gradients, the outer loop, and the test on unseen pairs."""
