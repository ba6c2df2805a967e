"""How long texts take to become token ids, the first time and from the cache.

    python benchmarks/encoding.py FOLDER      # FOLDER holds mnli/train.jsonl.gz

Also reports the ratio to the bare tokenizer on the same texts: the cost of reading ids into arrays,
checking and storing them.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

ROWS = 20_000


def main(folder: str) -> None:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["BRODMANN_CACHE"] = cache
        import brodmann as bm

        start = time.perf_counter()
        task = bm.load_tasks([{"use": "glue/mnli", "limit": ROWS}], base=folder)[0]
        loading = time.perf_counter() - start
        model = bm.MultiTaskModel.from_pretrained("builtin:minilm", [task])
        examples = task.splits["train"]
        texts = [e["text"] for e in examples], [e["text_pair"] for e in examples]
        model.tokenizer(texts[0][:100], texts[1][:100])  # warm

        start = time.perf_counter()
        model.tokenizer(*texts, truncation=True, max_length=128)
        bare = time.perf_counter() - start
        times = []
        for _ in range(2):
            start = time.perf_counter()
            encoded = model.encode(task.spec, examples)
            times.append(time.perf_counter() - start)
        stored = sum(file.stat().st_size for file in Path(cache).rglob("*.npz"))
    print(f"rows                     {encoded.examples:,} ({len(encoded.ids):,} tokens)")
    print(f"reading the files        {loading:.2f} s")
    print(f"encoding, first time     {times[0]:.2f} s ({times[0] / bare:.2f} x the bare tokenizer)")
    print(f"encoding, from the cache {times[1]:.2f} s ({times[0] / times[1]:.0f} x faster)")
    print(f"stored                   {stored / 1e6:.1f} MB")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/encoding.py FOLDER")
    main(sys.argv[1])
