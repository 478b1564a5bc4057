"""Every variant that this processor can run: the same bits, by the instructions it is named for."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from llvmlite import binding, ir

from edgellm.config import cache_dir
from edgellm.errors import BackendError
from edgellm.kernels.cpu import CpuBackend, atomics, compile as compiler, objects
from edgellm.kernels.cpu.dot import pin_all
from edgellm.kernels.cpu.emit import Emit
from edgellm.kernels.cpu.isa import (
    ENVIRONMENT,
    Isa,
    Processor,
    host_isa,
    processor,
    target_identity,
    variant,
)
from edgellm.kernels.cpu.ops.panel import block_product
from edgellm.kernels.cpu.product import COLUMNS, Product
from edgellm.kernels.cpu.strips import strips
from edgellm.kernels.cpu.vectors import prefetch
from edgellm.kernels.formats import by_id, by_name
from edgellm.kernels.ops import Builder
from tests.kernels.cpu.programs import (
    VOCABULARY,
    normal,
    pack,
    random_weight,
    rows_of,
    storage,
    streams,
    tokens,
)
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
ARM_TRIPLE = "aarch64-unknown-linux-gnu"
ARM = Processor("cortex-a76", {"neon": True, "dotprod": True}, is_x86=False)


@dataclass(frozen=True)
class Case:
    """instruction: what multiplies in its products, and in no lesser variant's. tried: what is
    computed, to keep compilation short."""

    instruction: str | None
    tried: tuple[str, ...]


EVERYTHING = ("Q4_1", "Q5_0", "Q8_0", "Q6_K", "attention")
CASES = {
    "portable": Case(None, ("Q8_0", "attention")),
    "avx2": Case(r"vpmaddubsw\s.*%ymm", ("Q6_K", "attention")),
    "avx-vnni": Case(r"vpdpbusd\s.*%ymm", ("Q4_1", "Q5_0", "Q8_0")),
    "avx512-vnni": Case(r"vpdpbusd\s.*%zmm", EVERYTHING),
    "dotprod": Case(r"\bsdot\b", EVERYTHING),
}


def product_bits(backend: CpuBackend, name: str) -> list[bytes]:
    """Products of a few token counts with weights of a format."""
    rng = np.random.default_rng(0)
    b = Builder()
    x = rows_of(b, normal(rng, VOCABULARY, 512))
    program = b.finish(logits=b.matmul(x, random_weight(rng, 29, 512, name)))
    executable = backend.load(program, storage(program, 0))
    return [executable.run(tokens(range(n)))["logits"].tobytes() for n in (1, 3, 37)]


def attention_bits(backend: CpuBackend) -> list[bytes]:
    """Attention over halves: prefill, one token, and a chunk."""
    rng = np.random.default_rng(0)
    b = Builder()
    q, k, v = (rows_of(b, normal(rng, VOCABULARY, 32 * heads)) for heads in (4, 2, 2))
    program = b.finish(logits=b.attention(q, k, v, num_heads=4, num_kv_heads=2, scale=0.2))
    (stream,) = streams(rng, 1, 50, 1)
    executable = backend.load(program, storage(program, 4, "f16", "f16"))
    return [executable.run(pack([(stream, n)], range(n)))["logits"].tobytes() for n in (40, 1, 9)]


def hashes(backend: CpuBackend, tried: Iterable[str]) -> dict[str, str]:
    """Of the bits of each thing tried."""
    results = {
        name: attention_bits(backend) if name == "attention" else product_bits(backend, name)
        for name in tried
    }
    return {name: hashlib.sha256(b"".join(parts)).hexdigest() for name, parts in results.items()}


def tile_assembly() -> str:
    """The inner loop of a matmul kernel, compiled as kernels are."""
    tile = block_product(by_name("Q4_1")).tile_one

    def kernel(args, step, thread, threads):  # type: ignore[no-untyped-def]
        tile(args[0], args[1], args[2], args[3], args[4], args[5])

    machine = compiler.target_machine()
    return str(machine.emit_assembly(compiler.kernel_module("tile", kernel, machine)))


def report() -> None:
    """Prints what the variant of this process gives; run in processes of their own."""
    isa = host_isa()
    backend = CpuBackend(cache_dir(), 2)
    found = {"isa": isa.name, "hashes": hashes(backend, CASES[isa.name].tried)}
    print(json.dumps({**found, "assembly": tile_assembly()}))
    backend.close()


@pytest.fixture(scope="module")
def expected(backend: CpuBackend) -> dict[str, str]:
    return hashes(backend, EVERYTHING)


def report_of(name: str) -> dict[str, Any]:
    """What a process that is told to use a variant reports."""
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import report; report()"],
        cwd=ROOT,
        env={**os.environ, ENVIRONMENT: name},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def reports() -> dict[str, dict[str, Any]]:
    """By variant; two at a time, because each may have to compile."""
    names = processor().variants
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(report_of, names), strict=True))


@pytest.mark.parametrize("name", processor().variants)
def test_a_variant_has_its_instructions_and_the_same_bits(
    name: str, reports: Mapping[str, dict[str, Any]], expected: dict[str, str]
) -> None:
    found = reports[name]
    assert found["isa"] == name
    assert found["hashes"] == {key: expected[key] for key in CASES[name].tried}
    for case in CASES.values():
        if case.instruction:
            is_there = re.search(case.instruction, found["assembly"]) is not None
            assert is_there == (case is CASES[name]), case.instruction
    if name in ("avx2", "avx-vnni"):  # what AVX-512 alone has
        assert not re.search(r"%zmm|%[xy]mm(1[6-9]|[23]\d)|%k[0-7]", found["assembly"])
    if name == "portable":
        assert not re.search(r"%[yz]mm", found["assembly"])


@pytest.mark.parametrize("name", ["sse9", "neon", "AVX2", " "])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(BackendError, match=re.escape(f"{name!r}: this processor")) as error:
        variant(name, processor())
    assert all(known in str(error.value) for known in processor().variants)


def test_what_the_processor_lacks_is_refused() -> None:
    old = Processor("haswell", {"avx2": True, "fma": True, "f16c": True}, is_x86=True)
    assert old.variants == ("avx2", "portable")
    with pytest.raises(BackendError, match=r"'avx-vnni'.*haswell.*avx2, portable"):
        variant("avx-vnni", old)
    with pytest.raises(BackendError, match=r"'avx2'.*dotprod, portable"):
        variant("avx2", ARM)


def test_the_best_variant_may_use_all_there_is() -> None:
    features = ("avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512bw")
    host = Processor("skylake-avx512", dict.fromkeys(features, True), is_x86=True)
    best, forced = variant(None, host), variant("avx2", host)
    assert (best.name, best.vector_registers) == ("avx2", 32)
    assert (forced.name, forced.vector_registers) == ("avx2", 16)
    assert (best.registers_of(8), forced.registers_of(8), forced.registers_of(16)) == (32, 16, 8)
    assert best.features in forced.features and forced.features.endswith("-avx512f,-avxvnni")


def test_each_variant_has_its_own_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for name in ("", *processor().variants):
        monkeypatch.setenv(ENVIRONMENT, name)
        isa = variant(name or None, processor())
        monkeypatch.setattr("edgellm.kernels.cpu.isa.host_isa", lambda isa=isa: isa)
        keys.add(objects.cache_key.__wrapped__())
    # The best one unnamed may use all there is, and where the system tells needs no LLVM to say so.
    assert len(keys) >= len(processor().variants)


def test_the_target_is_told_by_the_system_or_by_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setattr("edgellm.kernels.cpu.isa.platform.machine", lambda: "x86_64")
    lines = {"processor": "0", "vendor_id": "v", "cpu family": "6", "model": "1", "flags": "avx2"}
    told = [(lines, False), ({**lines, "stepping": "3"}, True)]
    for fields, is_enough in told:
        text = "\n".join(f"{name}\t: {value}" for name, value in fields.items())
        monkeypatch.setattr("edgellm.kernels.cpu.isa.read_file", lambda _, text=text: text + "\n\n")
        assert ("avx2" in target_identity().split()) == is_enough
        assert (host_isa().features in target_identity()) != is_enough


ARM_CPUINFO = """\
processor\t: 0
Features\t: fp asimd evtstrm crc32 atomics lrcpc{first}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd05
CPU revision\t: 0

processor\t: 1
Features\t: fp asimd evtstrm crc32 atomics lrcpc{second}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x4
CPU part\t: 0xd0b
CPU revision\t: 1

"""


@pytest.fixture
def arm_machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the system say that it runs on AArch64, and what LLVM says there."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setattr("edgellm.kernels.cpu.isa.platform.machine", lambda: "aarch64")
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: "cortex-a76")
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {"neon": True, "sve": False})

    def say(cpuinfo: str) -> None:
        monkeypatch.setattr("edgellm.kernels.cpu.isa.read_file", lambda _: cpuinfo)

    return say


@pytest.mark.parametrize(
    ("cpuinfo", "variants"),
    [
        (ARM_CPUINFO.format(first=" asimddp", second=" asimddp i8mm"), ("dotprod", "portable")),
        (ARM_CPUINFO.format(first="", second=" asimddp"), ("portable",)),
        ("", ("portable",)),
    ],
    ids=["all", "one of two", "silent"],
)
def test_linux_tells_what_arm_processors_have(
    cpuinfo: str, variants: tuple[str, ...], arm_machine: Callable[[str], None]
) -> None:
    arm_machine(cpuinfo)
    found = processor.__wrapped__()
    assert (found.cpu, found.is_x86, found.variants) == ("cortex-a76", False, variants)
    features = variant(None, found).features.split(",")
    assert "+neon" in features and "-sve" in features
    if cpuinfo:  # what LLVM expects of every processor of this name is denied where it is missing
        wanted = "+dotprod" if "dotprod" in variants else "-dotprod"
        assert {wanted, "-i8mm", "+rcpc"} <= set(features)


def test_the_arm_target_is_told_by_the_system(arm_machine: Callable[[str], None]) -> None:
    arm_machine(ARM_CPUINFO.format(first=" asimddp", second=" asimddp"))
    lines = target_identity().splitlines()
    assert [line for line in lines if "part" in line] == ["CPU part\t: 0xd05", "CPU part\t: 0xd0b"]
    assert len(lines) == len(set(lines)) and not any("processor" in line for line in lines)


# ---------------------------------------------------------------- for AArch64, compiled only


def arm_assembly(isa: Isa, lanes: int, type_id: int) -> str:
    """The product of one block of a format with activations, cross-compiled."""
    strip = strips(isa)[type_id]
    module = ir.Module()
    module.triple = ARM_TRIPLE
    i64 = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64, i64, i64]), "product")
    b = ir.IRBuilder(function.append_basic_block())
    e = Emit(b, lanes, isa)
    weight, x, out = function.args
    block = strip.read(e, [e.at(weight, by_id(type_id).type_size * lane) for lane in range(lanes)])
    product = Product(e, strip, by_id(type_id).group_size)
    for group, vectors in block.groups:
        dot = product.dot(ir.Constant(e.dwords_type, [0] * lanes))
        where = divmod(group, COLUMNS // product.group_size)
        for j, w in enumerate(vectors):
            dot.add(w, product.activations(x, *where, j))
            pin_all(e, [dot])
        prefetch(b, weight, 1)
        value = e.fma(block.scale(group), e.to_float(dot.total()), block.scale(group))
        e.store(e.at(out, e.vector_bytes * group), value, 4)
    b.ret_void()
    return assembly_of(module, isa)


def assembly_of(module: ir.Module, isa: Isa) -> str:
    text = str(module)
    assert "llvm.x86" not in text
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(module.triple)
    machine = target.create_target_machine(cpu=isa.cpu, features=isa.features, opt=3)
    return str(machine.emit_assembly(binding.parse_assembly(text)))


def arm_call(function: Any, params: Sequence[ir.Type], isa: Isa) -> list[str]:
    """Instructions of a function of Numba's that is an intrinsic, cross-compiled."""
    module = ir.Module()
    module.triple = ARM_TRIPLE
    caller = ir.Function(module, ir.FunctionType(ir.IntType(64), params), "caller")
    b = ir.IRBuilder(caller.append_basic_block())
    _, codegen = function._defn(None, *params)
    value = codegen(Mock(), b, None, caller.args)
    b.ret(value if isinstance(value, ir.Value) else ir.IntType(64)(0))
    lines = (line.split() for line in assembly_of(module, isa).splitlines())
    return [words[0] for words in lines if words and not words[0].startswith((".", "//"))]


@pytest.mark.parametrize(
    ("function", "params", "wanted"),
    [
        (atomics.atomic_load, 1, {"ldar"}),
        (atomics.load_acquire, 1, {"ldar", "ldapr"}),
        (atomics.atomic_store, 2, {"stlr"}),
        (atomics.store_release, 2, {"stlr"}),
        (atomics.atomic_add, 2, {"ldaddal"}),
        (atomics.atomic_exchange_if, 3, {"casal"}),
        (atomics.pause, 0, {"isb"}),
        (atomics.set_float_mode, 0, {"msr"}),
        (atomics.restore_float_mode, 1, {"msr"}),
    ],
    ids=lambda value: getattr(value, "__name__", None) or None,
)
def test_arm_words_are_in_order(
    function: Any, params: int, wanted: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the instructions that order memory, or tell the core something."""
    isa = variant(None, Processor("cortex-a76", {"dotprod": True, "lse": True}, is_x86=False))
    monkeypatch.setattr(atomics, "host_isa", lambda: isa)
    word = ir.IntType(64)
    takes_word = function not in (atomics.restore_float_mode,)
    kinds = [word.as_pointer() if i == 0 and takes_word else word for i in range(params)]
    found = arm_call(function, kinds, isa)
    assert wanted & set(found), found


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("name", ["Q8_0", "Q4_1", "IQ4_NL", "Q6_K"])
def test_arm_products_use_sdot(name: str, lanes: int) -> None:
    fmt = by_name(name)
    isa = variant(None, ARM)
    assert (isa.name, isa.has_dotprod, isa.vector_registers) == ("dotprod", True, 32)
    assert isa.registers_of(8) == 16  # a vector of eight floats takes two
    wanted = fmt.block_size * lanes // 16  # of 16 products each
    by_element = r"\bsdot\s+v\d+\.4s, v\d+\.16b, v\d+\.4b\[\d\]"
    found = arm_assembly(isa, lanes, fmt.type_id)
    assert len(re.findall(r"\bsdot\b", found)) == len(re.findall(by_element, found)) == wanted
    assert bool(re.search(r"\btbl\b", found)) == (name == "IQ4_NL")


def test_arm_products_without_sdot() -> None:
    isa = variant("portable", ARM)
    assert not isa.has_dotprod
    assert not re.search(r"\bsdot\b", arm_assembly(isa, 8, by_name("Q8_0").type_id))


@pytest.mark.parametrize("type_id", strips(variant(None, ARM)))
def test_every_reader_compiles_for_arm(type_id: int) -> None:
    assert "sdot" in arm_assembly(variant(None, ARM), 8, type_id)
