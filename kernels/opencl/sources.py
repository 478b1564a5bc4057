"""Puts the text of a program together: variant, common header, format snippet, op source.

Knows nothing of devices. A kernel is named by its source file, its function and its definitions.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from edgellm.errors import BackendError
from edgellm.kernels.formats import Format, by_id
from edgellm.kernels.formats.codebook import E2M1, IQ4
from edgellm.kernels.formats.iq_codebook import IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS
from edgellm.kernels.opencl.variant import Variant, header

# Grids of formats: a row is two words, or one where rows are of four.
_GRIDS = {"IQ1_S": IQ1, "IQ1_M": IQ1, "IQ2_XXS": IQ2_XXS, "IQ2_XS": IQ2_XS, "IQ2_S": IQ2_S}
_HALF_GRIDS = {"IQ3_XXS": IQ3_XXS, "IQ3_S": IQ3_S}
# Tables that snippets may name, of codes, four to a word.
_CODES = {"IQ4": IQ4, "E2M1_AND_12": E2M1 + np.int8(12)}
_PRODUCTS = {"matmul", "tile"}  # files that need sums of products
# Other files that one relies on, in order.
_NEEDS = {
    "activation": ("record",),
    "attention": ("cache", "record", "rotate"),
    "matmul": ("matrices",),
    "norm": ("record", "rotate"),
    "probe": ("byte_pairs",),
    "quantize": ("record",),
    "rows": ("rotate",),
    "store_kv": ("cache", "rotate"),
    "tile": ("matrices",),
}


@dataclass(frozen=True)
class KernelKey:
    """One kernel of the file `source`.

    type_id: the ggml type of the weights it reads, where it reads any. definitions: names and
    numbers in front of the source. vector, group: as in Variant; None is the variant's.
    """

    source: str
    function: str
    type_id: int | None = None
    definitions: tuple[tuple[str, int | str], ...] = ()
    vector: int | None = None
    group: int | None = None


@cache
def read(name: str) -> str:
    """A file of the folder `source`; FileNotFoundError when there is none."""
    return (resources.files(__package__) / "source" / name).read_text("utf-8")


def program_text(key: KernelKey, variant: Variant) -> str:
    """The whole text that `key` is compiled from."""
    grouped = replace(variant, group=key.group or variant.group)
    parts = [header(grouped, key.vector or variant.vector)]
    parts += [f"#define {name} {value}\n" for name, value in key.definitions]
    parts.append(read("common.cl"))
    if key.type_id is not None:
        parts.append(_format_text(by_id(key.type_id), needs_product=key.source in _PRODUCTS))
    parts += [read(f"{name}.cl") for name in (*_NEEDS.get(key.source, ()), key.source)]
    return "\n".join(parts)


def _format_text(fmt: Format, needs_product: bool) -> str:
    """Definitions, tables and snippet of a format, and the sums of products over them."""
    is_float = fmt.unpack is None
    lines = [f"#define BLOCK_SIZE {fmt.block_size}", f"#define TYPE_SIZE {fmt.type_size}"]
    if is_float:
        lines += ["#define IS_FLOAT", *(["#define IS_BF16"] if fmt.name == "BF16" else [])]
    else:
        lines += [f"#define GROUP {fmt.group_size}", *(["#define HAS_LOW"] if fmt.has_min else [])]
    try:
        snippet = read(f"formats/{'floats' if is_float else fmt.name.lower()}.cl")
    except FileNotFoundError:
        raise BackendError(f"the opencl backend cannot read {fmt.name} weights yet") from None
    used = (name for name in _CODES if re.search(rf"\b{name}\b", snippet))
    tables = [table(name, _CODES[name].view("<u4")) for name in used]
    if (grid := _grid(fmt.name)).size:
        tables += [f"#define GRID_WORDS {grid.size}", table("GRID", grid)]
    files = ("float_product.cl",) if is_float else ("byte_pairs.cl", "product.cl")
    products = map(read, files) if needs_product else ()
    return "\n".join([*lines, *tables, read("format.cl"), snippet, *products])


def table(name: str, words: npt.NDArray[np.uint32]) -> str:
    """The C text of a table in constant memory, which may be read by 16 bytes."""
    numbers = ", ".join(f"{word}u" for word in words.tolist())
    return f"__constant const uint {name}[] __attribute__((aligned(16))) = {{{numbers}}};\n"


def grid_bytes(type_id: int) -> int:
    """Of the grid that a ggml type's weights are rows of; 0 where it has none."""
    return _grid(by_id(type_id).name).nbytes


def _grid(name: str) -> npt.NDArray[np.uint32]:
    """Of a format, maybe empty."""
    if name in _GRIDS:
        return _GRIDS[name].array.view("<u4").reshape(-1)
    if name in _HALF_GRIDS:
        return _HALF_GRIDS[name].array.view("<u4").reshape(-1, 2)[:, 0].astype(np.uint32)
    return np.zeros(0, np.uint32)
