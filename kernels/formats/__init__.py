"""Block formats by ggml type id: one file per family, one row per type.

`by_id` and `by_name` look a format up; `FORMATS` is the whole table.
"""

from importlib import import_module

from edgellm.kernels.formats.format import Format, dequantize_rows, quantize_rows

_FAMILIES = ("floats", "legacy", "k_quants", "ternary", "iq_small", "iq_codebook", "fp4", "bits")

FORMATS: dict[int, Format] = {
    fmt.type_id: fmt
    for family in _FAMILIES
    for fmt in import_module(f"edgellm.kernels.formats.{family}").FORMATS
}
_BY_NAME = {fmt.name: fmt for fmt in FORMATS.values()}

__all__ = ["FORMATS", "Format", "by_id", "by_name", "dequantize_rows", "quantize_rows"]


def by_id(type_id: int) -> Format:
    """The format with this ggml type id; KeyError when edgellm has none."""
    return FORMATS[type_id]


def by_name(name: str) -> Format:
    """The format with this ggml name (`Q4_K`); KeyError when edgellm has none."""
    return _BY_NAME[name]
