"""Load a sequence or token classifier that was trained elsewhere, with its tokenizer."""

from pathlib import Path
from typing import Any

import torch

from brodmann.errors import InputError
from brodmann.models.backbone.anatomy import is_cut
from brodmann.models.backbone.devices import choose_device
from brodmann.models.backbone.foreign import check_config
from brodmann.models.backbone.load import load_config, load_tokenizer, loading, quiet

_AUTO = {
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
}


def load_classifier(name: str, device: str = "auto") -> tuple[Any, Any]:
    """(model, tokenizer) of a folder or hub id; InputError if it does not classify."""
    import transformers

    place = choose_device(device)
    config = load_config(name)
    check_config(config, name)
    named = (config.architectures or [""])[0]
    auto = next((_AUTO[ending] for ending in _AUTO if named.endswith(ending)), None)
    if auto is None:
        raise InputError(
            f"'{name}' is a {named or 'model without a named class'}: expected a sequence or token "
            "classifier (for a model of ours, give its run folder)"
        )
    with loading(name), quiet(), torch.random.fork_rng():
        if is_cut(config) and Path(name).is_dir():
            from brodmann.models.heads.removal import load_pruned

            model = load_pruned(name, config)
        else:
            model, found = getattr(transformers, auto).from_pretrained(
                name,
                dtype=torch.float32,
                trust_remote_code=False,
                output_loading_info=True,
            )
            if missing := sorted(found["missing_keys"]):
                raise InputError(
                    f"'{name}': weights are missing ({missing[0]} and {len(missing) - 1} more): "
                    "it was not trained as a classifier"
                )
        tokenizer = load_tokenizer(name, name)
    return model.eval().to(place), tokenizer
