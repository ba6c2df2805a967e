"""Results as pandas tables. pandas is optional."""

from typing import Any

from brodmann.errors import InputError


def need_pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise InputError("tables need pandas: pip install pandas") from None
    return pandas
