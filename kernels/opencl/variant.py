"""How kernels are cut for a device: the numbers that are compiled into them, and their C header.

Knows nothing of OpenCL's host side. Part of the numerics: another variant may give other bits.
"""

from dataclasses import dataclass, replace
from typing import Literal

Dot4 = Literal["none", "khr", "ptx", "gfx9", "gfx11", "avx2"]
Shuffles = Literal["none", "khr", "intel"]
# Work-items of a group, by what the name of a variant for compilers that grant no more ends in.
_GROUPS = {"half": 128, "small": 16}


@dataclass(frozen=True)
class Tile:
    """How a product with many rows of x is cut (source/tile.cl), in batches of at least `least`.

    tokens: rows of x for a work-group, `items` work-items beside each lane. groups: of 32 columns
    in local memory at once.
    """

    least: int
    tokens: int
    items: int
    groups: int

    def local_bytes(self, variant: "Variant") -> int:
        """Local memory that a work-group takes for the format that takes most."""
        weights = variant.strip_rows * (8 + 2 * 2)  # words, and two scales and minima
        return 4 * (self.groups * (weights + self.tokens * variant.record_words) + 2 * self.tokens)


@dataclass(frozen=True)
class Variant:
    """vector: rows of a matrix, or numbers of a row, that a work-item handles at once (1 to 8).

    strip_rows: matrix rows that lie side by side, `vector` of them to a work-item. slices: parts
    of a row's columns, a work-item each. group: work-items that share a head; row_group: those that
    share a norm of more numbers than such a group loads at once; powers of two. items: work-items
    of a group in ops that treat each number alone. dot4: how four bytes are multiplied at once;
    "avx2" is for vectors of 8, "ptx" for NVIDIA's GPUs, generations for AMD's. inlines_itself:
    OpenCL's own functions are real calls here, so that vectors are loaded, stored and fused without
    them. ahead: bytes of a matrix between what is read and what is asked for already; 0 where no
    caches want that. at_once: loads of one kind that a work-item begins before it needs the first;
    a power of two. tokens: rows of x that a product takes at once, ascending from 1. tiles: for
    more of them, ascending; none where the device has no local memory that is faster than its
    other. pairs: of a row and a head, whose attention a group computes at most. split_rows: up to
    how many rows a step's attention is computed by a group for each tile of keys, where there are
    several. candidates: so many of the best logits of a row may cross the bus instead of all; a
    power of two.
    """

    name: str
    vector: int
    strip_rows: int
    slices: int
    group: int
    row_group: int
    items: int
    dot4: Dot4 = "none"
    inlines_itself: bool = False
    ahead: int = 0
    at_once: int = 1
    pairs: int = 8
    tokens: tuple[int, ...] = (1, 4, 8)
    tiles: tuple[Tile, ...] = ()
    split_rows: int = 0
    candidates: int = 1
    local: int = 31 << 10  # every device of the full profile has 32 KiB, and some take from it
    shuffles: Shuffles = "none"
    has_half: bool = False

    @property
    def fallbacks(self) -> tuple["Variant", ...]:
        """The same with less and less of what not all devices have: down to plain OpenCL, then in
        groups of fewer and fewer work-items, for compilers that grant no more."""
        name, _, ending = self.name.partition("-")
        dotless = replace(self, name=name, dot4="none")
        plain = replace(dotless, shuffles="none", has_half=False, ahead=0)
        cuts = {way: plain.within(size) for way, size in _GROUPS.items() if plain.group > 1}
        smaller = [replace(cut, name=f"{name}-{way}") for way, cut in cuts.items() if cut != plain]
        if ending in _GROUPS:
            return tuple(smaller)
        return tuple(dict.fromkeys((self, dotless, plain, *smaller)))[1:]

    def within(self, size: int) -> "Variant":
        """The same in groups of at most `size` work-items."""
        most = 1 << (max(1, size // self.lanes).bit_length() - 1)
        tiles = tuple(replace(tile, items=min(tile.items, most)) for tile in self.tiles)
        return replace(
            self,
            slices=min(self.slices, most),
            group=min(self.group, self.lanes * most),
            row_group=min(self.row_group, self.lanes * most),
            items=min(self.items, size),
            tiles=tiles if most > 1 else (),
        )

    @property
    def lanes(self) -> int:
        """Work-items side by side in a product."""
        return self.strip_rows // self.vector

    def parts_bytes(self, tokens: int) -> int:
        """Local memory for the results of slices, which are added up there (source/matmul.cl)."""
        return 4 * tokens * self.strip_rows * self.slices if self.slices > 1 else 0

    @property
    def record_words(self) -> int:
        """Words of one block of 32 quantised activations (source/quantize.cl)."""
        return 4 + (16 if self.dot4 == "none" else 8)


CPU = Variant(
    "cpu", vector=8, strip_rows=8, slices=1, group=1, row_group=1, items=64,
    inlines_itself=True, ahead=4096,
)  # fmt: skip
GPU = Variant(
    "gpu", vector=4, strip_rows=64, slices=16, group=64, row_group=256, items=64,
    tiles=(Tile(least=16, tokens=32, items=8, groups=4), Tile(48, tokens=64, items=8, groups=4)),
    at_once=8, split_rows=16, candidates=64,
)  # fmt: skip
VARIANTS = {variant.name: variant for variant in (CPU, GPU)}

_DOT4 = {
    "none": "",
    "avx2": "#define HAS_BYTE_PAIRS\n",  # of which source/byte_pairs.cl makes use
    "khr": "#define DOT4(q, x, sum) ((sum) + dot_4x8packed_ss_int(q, x))\n",
    "ptx": """static inline int DOT4(uint q, uint x, int sum)
{
    int result;
    __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(q), "r"(x), "r"(sum));
    return result;
}
static inline uint bytes_by_nibbles(uint a, uint b, uint at)
{
    uint result;
    __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(at));
    return result;
}
""",
    # Which of a generation's chips have it the driver's compiler knows: it refuses the others.
    "gfx9": "#define DOT4(q, x, sum) __builtin_amdgcn_sdot4(as_int(q), as_int(x), sum, false)\n",
    "gfx11": """#define DOT4(q, x, sum) \\
    __builtin_amdgcn_sudot4(true, as_int(q), true, as_int(x), sum, false)
""",
}
_PERMUTE_GFX = "__builtin_amdgcn_perm(((uintV)(b))%, ((uintV)(a))%, ((uintV)(at))%)"
# NVIDIA's OpenCL has no half, but all its GPUs do.
_HALF_BY_PTX = """static inline float half_to_float(ushort bits)
{
    float result;
    __asm__("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
    return result;
}
"""
# read_lane(value, distance): the number of the work-item that far away in a subgroup.
_SHUFFLES = {
    "none": "",
    "khr": """#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#define read_lane(value, distance) sub_group_shuffle_xor(value, (uint)(distance))
""",
    "intel": """#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#define read_lane(value, distance) intel_sub_group_shuffle_xor(value, (uint)(distance))
""",
}
# Components of a vector, in order.
_COMPONENTS = {1: [""], 4: [f".s{i}" for i in range(4)], 8: [f".s{i}" for i in range(8)]}


def language(variant: Variant) -> str:
    """For -cl-std: the later one where an extension is one to it."""
    return "CL3.0" if "khr" in (variant.dot4, variant.shuffles) else "CL1.2"


def header(variant: Variant, vector: int) -> str:
    """C definitions for kernels whose work-items handle `vector` numbers at once."""
    lines = [
        f"#define V {vector}",
        f"#define STRIP {variant.strip_rows}",
        f"#define SLICES {variant.slices}",
        f"#define WG {variant.group}",
        f"#define RECORD {variant.record_words}",
        f"#define AT_ONCE {variant.at_once}",
    ]
    size = "" if vector == 1 else str(vector)
    for kind in ("uint", "int", "float", "ushort", "uchar"):
        lines.append(f"typedef {kind}{size} {kind}V;")
    lines.append(f"typedef short{2 * vector} short2V;")
    for kind in ("uint", "int", "float"):
        lines.append(f"#define convert_{kind}V convert_{kind}{size}")
        lines.append(f"#define as_{kind}V as_{kind}{size}")
    lines.append(f"#define as_short2V as_short{2 * vector}")
    bits = "convert_uintV(load_aligned((__global const ushort *)(p)))"
    reads_bits = variant.inlines_itself or variant.has_half or variant.dot4 == "ptx"
    halves = f"half_bits({bits})" if reads_bits else f"vload_half{size}(0, p)"
    lines.append(f"#define load_halves(p) {halves}")
    lines += [_load_and_store(kind, space, vector, variant) for kind, space in _MEMORY]
    lines += _ALIGNED if variant.inlines_itself else _ALIGNED_WIDE
    lines += [_fused(kind, variant) for kind in ("float", "floatV")[: min(2, vector)]]
    if vector == 1:
        lines += ["#define SUM_OF(x) (x)", "#define MAX_OF(x) (x)", "#define IOTA 0"]
    else:
        numbers = ", ".join(map(str, range(vector)))
        lines.append(f"#define IOTA ((int{vector})({numbers}))")
        lines += [
            _reduction("SUM_OF", "{} + {}", vector),
            _reduction("MAX_OF", "fmax({}, {})", vector),
        ]
    if variant.ahead:  # not by prefetch(), which some drivers ignore
        address = f"(const void *)(size_t)((p) + {variant.ahead})"
        lines.append(f"#define ASK_FOR_LINE(p) __builtin_prefetch({address})")
    lines.append(f"#define GATHER(table, i) ((uintV)({_each('(table)[(i)%]', vector)}))")
    lines += [_SHUFFLES[variant.shuffles], _DOT4[variant.dot4]]
    if variant.shuffles != "none":
        lines.append("#define HAS_SHUFFLES")
    if variant.dot4 == "ptx":
        each = _each("half_to_float((ushort)((bits)%))", vector)
        lines += [_HALF_BY_PTX, f"#define HALVES(bits) ((floatV)({each}))"]
        each = _each("bytes_by_nibbles(((uintV)(a))%, ((uintV)(b))%, ((uintV)(at))%)", vector)
        lines.append(f"#define PERMUTE_BY_NIBBLES(a, b, at) ((uintV)({each}))")
    if variant.dot4 in ("gfx9", "gfx11"):
        each = _each(_PERMUTE_GFX, vector)
        lines.append(f"#define PERMUTE_BY_BYTES(a, b, at) ((uintV)({each}))")
    if variant.has_half and variant.dot4 != "ptx":
        lines += [
            "#pragma OPENCL EXTENSION cl_khr_fp16 : enable",
            f"#define HALVES(bits) convert_float{size}(as_half{size}(convert_ushort{size}(bits)))",
        ]
    if variant.dot4 not in ("none", "avx2"):
        each = _each("DOT4((q)%, x, (sum)%)", vector)
        lines += ["#define HAS_DOT4", f"#define DOT4V(q, x, sum) ((intV)({each}))"]
    return "\n".join(lines) + "\n"


def _each(text: str, vector: int) -> str:
    return ", ".join(text.replace("%", part) for part in _COMPONENTS[vector])


_HEAD = "static inline __attribute__((overloadable))"
# What kernels load whole vectors from and store them to.
_MEMORY = [("float", space) for space in ("__global", "__local", "__private")]
_MEMORY += [("uint", "__local"), *((kind, "__global") for kind in ("uint", "ushort", "uchar"))]


def _load_and_store(kind: str, space: str, vector: int, variant: Variant) -> str:
    """loadV(p) and storeV(value, p) for numbers of a kind in one kind of memory."""
    alike = f"typedef {kind}V __attribute__((aligned(sizeof({kind})))) {space[2:]}_{kind}V;"
    place = f"({space} {space[2:]}_{kind}V *)p"
    load, store = f"return *{place.replace(space, f'{space} const', 1)};", f"*{place} = value;"
    if not variant.inlines_itself and vector > 1:
        alike, load, store = "", f"return vload{vector}(0, p);", f"vstore{vector}(value, 0, p);"
    return f"""{alike}
{_HEAD} {kind}V loadV({space} const {kind} *p) {{ {load} }}
{_HEAD} void storeV({kind}V value, {space} {kind} *p) {{ {store} }}"""


# The same for numbers at whole vectors, which GPUs read at once where the type says so.
_ALIGNED = ["#define load_aligned loadV", "#define store_aligned storeV"]
_ALIGNED_WIDE = [
    f"""{_HEAD} {kind}V load_aligned({space} const {kind} *p)
{{ return *({space} const {kind}V *)p; }}"""
    for kind, space in _MEMORY
    if space != "__private"
]
_ALIGNED_WIDE += [
    f"{_HEAD} void store_aligned(uintV value, {space} uint *p) {{ *({space} uintV *)p = value; }}"
    for space in ("__global", "__local")
]


def _fused(kind: str, variant: Variant) -> str:
    """fused(a, b, c): a * b + c, rounded once."""
    body = "return fma(a, b, c);"
    if variant.inlines_itself:
        body = "\n#pragma OPENCL FP_CONTRACT ON\nreturn a * b + c;\n"
    return f"{_HEAD} {kind} fused({kind} a, {kind} b, {kind} c) {{ {body} }}"


def _reduction(name: str, pair: str, vector: int) -> str:
    """A function that folds the upper half of a vector onto the lower until one number is left."""
    lines = [f"static inline float {name}(float{vector} x)", "{"]
    value, size = "x", vector
    while size > 1:
        size //= 2
        kind = f"float{size}" if size > 1 else "float"
        lines.append(f"    {kind} x{size} = {pair.format(f'{value}.lo', f'{value}.hi')};")
        value = f"x{size}"
    return "\n".join([*lines, f"    return {value};", "}"])
