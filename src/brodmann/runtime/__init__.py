"""Answer texts from an exported package with ONNX Runtime, tokenizers and numpy alone.

    package = brodmann.runtime.load("runs/demo/onnx")
    package.predict("sentiment", ["A wonderful film."])
    package.predict_all(["A wonderful film."])

| file | |
|---|---|
| `package_files.py` | the files of a package, checked: `brodmann.json`, checksums, rules |
| `text_tokenizer.py` | tokenizer.json read without transformers |
| `onnx_reader.py` | graphs → answers |

Nothing that this room imports loads torch, transformers or pydantic.
"""

from brodmann.runtime.onnx_reader import OnnxReader, load

__all__ = ["OnnxReader", "load"]
