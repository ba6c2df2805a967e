"""The JSON schema of configurations, for editors.

Editors with a TOML language server (taplo, as in Even Better TOML) read it from the first line of
a configuration: `#:schema brodmann.schema.json`.
"""

from typing import Any

from brodmann.config import Config
from brodmann.data.kinds import KINDS
from brodmann.data.sampling.samplers import SAMPLERS
from brodmann.models.encoders import ARCHITECTURES
from brodmann.models.model_settings import DEVICES


def config_schema() -> dict[str, Any]:
    """What a configuration may contain; names that settings choose from are listed."""
    found = Config.model_json_schema()
    found["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    found["title"] = "Brodmann configuration"
    parts = found["$defs"]
    found["properties"]["device"] |= {"pattern": f"^({DEVICES})$"}
    parts["ModelSettings"]["properties"]["architecture"] |= {"enum": list(ARCHITECTURES)}
    parts["TrainingSettings"]["properties"]["sampling"] |= {"enum": list(SAMPLERS)}
    parts["TaskDescription"]["properties"]["kind"]["anyOf"][0] |= {"enum": list(KINDS)}
    return found
