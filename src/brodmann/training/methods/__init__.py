"""Methods that change how a step trains: IAT, gradient aggregation, distillation."""
