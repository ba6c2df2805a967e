"""The stages of a run, one module each; `run` joins them. Wiring only."""
