"""One encoder, many output heads: build, save and score models, and predict with them."""
