"""Write docs/families.md: what works on the heads of every family of the installed transformers.

python tools/families.py            # a few minutes; judges as `make test-slow` does
"""

import sys
from pathlib import Path

import torch
import transformers

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.conformance import Verdict, judge_family  # noqa: E402
from tests.small_models import model_types  # noqa: E402

HEAD = """# Families of models

What works on the attention heads of every model type that transformers {version} lists for sequence classification,
token classification and causal language modelling, as found by the conformance test on small random models
(`python tools/families.py` writes this page; `make test-slow` checks the same). Nothing here is a list that Brodmann
reads: the heads of any model are [discovered](heads.md#any-model).

*Gates* are compared with an attention function that multiplies every head's result itself, *importance* with gradients
at the gates, *removal* with the gates. *Interface* says whether attention goes through transformers' attention
interface; otherwise Brodmann recognises the softmax and the product with the values. Of {types} model types, {built}
could be built small by one rule for all configurations; {attending} of those have softmax attention heads, {exact} of
them with exact gates and importance, and heads can be removed from {removable}.

| model type | interface | gates | importance | removal | key-value groups | remark |
|---|---|---|---|---|---|---|
"""
TAIL = """
Heads cannot be removed where a norm reaches over all of them (OLMo 2 and 3, BitNet), where layers share their weights
(ALBERT), or where a position bias or a size for all heads comes from another module (BLOOM, MPT, Phi-3): use gates.
Fourier layers (FNet), state-space and recurrent layers (Mamba, RWKV, xLSTM) and approximated attention (MRA, YOSO) have
no softmax heads. Hybrid models appear without heads if the small form holds none of their attention layers.

## Could not be built small

{unbuilt}
"""


def main() -> None:
    torch.set_num_threads(1)
    verdicts = []
    for family, auto in model_types():
        verdicts.append(judge_family(family, auto))
        print(verdicts[-1], flush=True)
    (ROOT / "docs" / "families.md").write_text(page(verdicts), encoding="utf-8")


def page(verdicts: list[Verdict]) -> str:
    built = [one for one in verdicts if one.built]
    attending = [one for one in built if one.attends]
    head = HEAD.format(
        version=transformers.__version__,
        types=len(verdicts),
        built=len(built),
        attending=len(attending),
        exact=sum(one.gates and one.importance for one in attending),
        removable=sum(one.removal for one in attending),
    )
    rows = "".join(row(one) for one in built)
    unbuilt = "\n".join(
        f"- `{one.family}`: {plain(one.reason)}" for one in verdicts if not one.built
    )
    return head + rows + TAIL.format(unbuilt=unbuilt)


def row(one: Verdict) -> str:
    located = one.interface is not None
    cells = [
        f"`{one.family}`",
        "–" if not located else "yes" if one.interface else "no",
        *("yes" if value else "–" for value in (one.gates, one.importance, one.removal)),
        "yes" if one.grouped else "",
        "" if one.removal else plain(one.reason),
    ]
    return "| " + " | ".join(cells) + " |\n"


def plain(reason: str) -> str:
    """One short sentence without the class's name and the advice, which repeat."""
    text = reason.partition(": ")[2] if reason.partition(": ")[0].endswith("Model") else reason
    text = text.replace(": use head_gates", "").replace("|", "/").strip()
    return text or "needs a package that is not installed"


if __name__ == "__main__":
    main()
