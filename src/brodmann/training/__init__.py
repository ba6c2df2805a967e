"""Training: one loop, and the methods that change what a step updates."""
