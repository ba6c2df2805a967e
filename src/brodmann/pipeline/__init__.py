"""The stages of a run, one module each; `run` joins them. All wiring, nothing else."""
