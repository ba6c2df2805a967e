"""Architectures by name: `build(backbone, specs, max_length, **parameters)` → encoder module.

An encoder takes the rows of a batch and its parts and returns the states of every part.
"""

from collections.abc import Callable
from typing import Any

from brodmann.models.encoders import adapters, ca_mtl, hmnet, pals, shared, single, skillnet

ARCHITECTURES: dict[str, Callable[..., Any]] = {
    "shared": shared.build,
    "single": single.build,
    "ca_mtl": ca_mtl.build,
    "pals": pals.build,
    "adapters": adapters.build,
    "hmnet": hmnet.build,
    "skillnet": skillnet.build,
}
