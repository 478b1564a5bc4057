"""The ggml tensor types: id, name, block and byte sizes. Knows nothing of what is in a block."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GGMLType:
    """One tensor type: `block_size` weights are stored in `type_size` bytes."""

    type_id: int
    name: str
    block_size: int
    type_size: int


# Source: ggml.c of llama.cpp b11434 (GGML_TYPE_COUNT = 43): name, weights and bytes per block.
# gguf-py gives Q8_1 40 bytes; the C structure has 36.
GGML_TYPES: dict[int, GGMLType] = {
    type_id: GGMLType(type_id, name, block_size, type_size)
    for type_id, name, block_size, type_size in (
        (0, "F32", 1, 4),
        (1, "F16", 1, 2),
        (2, "Q4_0", 32, 18),
        (3, "Q4_1", 32, 20),
        (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24),
        (8, "Q8_0", 32, 34),
        (9, "Q8_1", 32, 36),
        (10, "Q2_K", 256, 84),
        (11, "Q3_K", 256, 110),
        (12, "Q4_K", 256, 144),
        (13, "Q5_K", 256, 176),
        (14, "Q6_K", 256, 210),
        (15, "Q8_K", 256, 292),
        (16, "IQ2_XXS", 256, 66),
        (17, "IQ2_XS", 256, 74),
        (18, "IQ3_XXS", 256, 98),
        (19, "IQ1_S", 256, 50),
        (20, "IQ4_NL", 32, 18),
        (21, "IQ3_S", 256, 110),
        (22, "IQ2_S", 256, 82),
        (23, "IQ4_XS", 256, 136),
        (24, "I8", 1, 1),
        (25, "I16", 1, 2),
        (26, "I32", 1, 4),
        (27, "I64", 1, 8),
        (28, "F64", 1, 8),
        (29, "IQ1_M", 256, 56),
        (30, "BF16", 1, 2),
        (34, "TQ1_0", 256, 54),
        (35, "TQ2_0", 256, 66),
        (39, "MXFP4", 32, 17),
        (40, "NVFP4", 64, 36),
        (41, "Q1_0", 128, 18),
        (42, "Q2_0", 64, 18),
    )
}

# Ids that ggml once used and took back: name, and the type that replaced it.
REMOVED_TYPES: dict[int, tuple[str, str]] = {
    4: ("Q4_2", "Q4_0"),
    5: ("Q4_3", "Q4_1"),
    31: ("Q4_0_4_4", "Q4_0"),
    32: ("Q4_0_4_8", "Q4_0"),
    33: ("Q4_0_8_8", "Q4_0"),
    36: ("IQ4_NL_4_4", "IQ4_NL"),
    37: ("IQ4_NL_4_8", "IQ4_NL"),
    38: ("IQ4_NL_8_8", "IQ4_NL"),
}


def refusal(type_id: int) -> str:
    """Why a type id that is not in GGML_TYPES cannot be read, and what to do."""
    if type_id in REMOVED_TYPES:
        name, instead = REMOVED_TYPES[type_id]
        return f"has the type {name} (id {type_id}), which ggml removed: use a {instead} file"
    return (
        f"has the unknown type id {type_id}, expected one of ggml's (0 to 42): the file may be "
        "for a fork of llama.cpp, or newer than this edgellm"
    )
