"""A user's own corpus: sentences that belong to no task, for comparing encoders."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.data.tasks import is_text
from brodmann.errors import InputError
from brodmann.files import digest

Corpus = str | Path | Sequence[str]
EXPECTED = "expected a UTF-8 text file with one sentence per line"


def corpus_sentences(corpus: Corpus) -> list[str]:
    """All sentences of a text file (one per line, blank lines left out) or of a list."""
    if isinstance(corpus, str | Path):
        source = str(corpus)
        found = _lines(Path(corpus))
    else:
        source, found = "corpus", list(corpus)
    for place, sentence in enumerate(found):
        if not isinstance(sentence, str) or not is_text(sentence):
            raise InputError(f"{source}: entry {place}: expected a text, found {sentence!r:.60}")
    sentences = [sentence.strip() for sentence in found if sentence.strip()]
    if len(sentences) < 2:
        raise InputError(f"{source}: {len(sentences)} sentences, at least 2 are needed: {EXPECTED}")
    return sentences


def _lines(path: Path) -> list[str]:
    try:
        return path.expanduser().read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file: {EXPECTED}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}: {EXPECTED}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): {EXPECTED}") from None


def drawn_sentences(sentences: Sequence[str], count: int, seed: int) -> list[str]:
    """`count` sentences drawn without replacement, or all if there are fewer."""
    order = np.random.default_rng(seed).permutation(len(sentences))[:count]
    return [sentences[place] for place in sorted(order)]


def about_corpus(corpus: Corpus, sentences: Sequence[str]) -> dict[str, Any]:
    """Facts about the corpus to store with a result."""
    name = Path(corpus).name if isinstance(corpus, str | Path) else "a list of sentences"
    return {"name": name, "sentences": len(sentences), "digest": digest(list(sentences))}
