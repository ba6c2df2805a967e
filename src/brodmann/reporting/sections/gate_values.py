"""The gates that a model has learnt, and the heads that are switched off in it."""

from brodmann.reporting.blocks import Matrix, Section
from brodmann.reporting.record import Record, Study


def section(study: Study) -> Section | None:
    blocks = []
    for run in study.runs:
        gates = run.gates
        if gates is None:
            continue
        off = sum(value == 0 for row in gates for value in row)
        switched = (
            f"; {off} of {len(gates) * len(gates[0])} heads are closed or switched off"
            if off
            else ""
        )
        blocks.append(
            Matrix(
                [f"layer {number}" for number in range(len(gates))],
                [f"head {number}" for number in range(len(gates[0]))],
                gates,
                f"{run.name}: the gate of every head, saved with the model{_seed(run)}{switched}.",
                _shades(gates),
                digits=3,
                percent=False,
                numbered=False,
            )
        )
    return Section("gates", "Gates", blocks) if blocks else None


def _seed(run: Record) -> str:
    """A note that the run's model is the start of the first of several seeds."""
    found = run.measures.get("meta")
    if found is None or found["seeds"] < 2:
        return ""
    which = f"seed {found['first_seed']}, " if "first_seed" in found else ""
    return f" ({which}the first of {found['seeds']} seeds)"


def _shades(gates: list[list[float]]) -> list[list[float]]:
    """Shades from the most closed to the most open of these gates; heads that are off are white."""
    values = [value for row in gates for value in row if value > 0]
    low, high = min(values, default=0.0), max(values, default=1.0)
    reach = (high - low) or 1.0
    return [[0.0 if not v else 0.1 + 0.9 * (v - low) / reach for v in row] for row in gates]
