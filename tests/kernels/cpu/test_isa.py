"""Every variant that this processor can run: the same bits, by the instructions it is named for."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import binding, ir

from edgellm.config import cache_dir
from edgellm.errors import BackendError
from edgellm.kernels.cpu import CpuBackend, compile as compiler, objects
from edgellm.kernels.cpu.dot import Dot, pin_all
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
    lines = {"processor": "0", "vendor_id": "v", "cpu family": "6", "model": "1", "flags": "avx2"}
    told = [(lines, False), ({**lines, "stepping": "3"}, True)]
    for fields, is_enough in told:
        text = "\n".join(f"{name}\t: {value}" for name, value in fields.items())
        monkeypatch.setattr("edgellm.kernels.cpu.isa.read_file", lambda _, text=text: text + "\n\n")
        assert ("avx2" in target_identity().split()) == is_enough
        assert (host_isa().features in target_identity()) != is_enough


# ---------------------------------------------------------------- for AArch64, compiled only


def arm_assembly(isa: Isa, lanes: int, type_id: int) -> str:
    """The product of one block of a format with activations, cross-compiled."""
    strip = strips(isa)[type_id]
    module = ir.Module()
    module.triple = "aarch64-unknown-linux-gnu"
    i64 = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64, i64, i64]), "product")
    b = ir.IRBuilder(function.append_basic_block())
    e = Emit(b, lanes, isa)
    weight, x, out = function.args
    block = strip.read(e, [e.at(weight, by_id(type_id).type_size * lane) for lane in range(lanes)])
    at = 0
    for group, vectors in block.groups:
        dot = Dot(e, strip.domain, ir.Constant(e.dwords_type, [0] * lanes))
        for w in vectors:
            dot.add(w, b.bitcast(e.splat_load(e.at(x, at), ir.IntType(32)), e.bytes_type))
            pin_all(e, [dot])
            at += 4
        prefetch(b, weight, 1)
        value = e.fma(block.scale(group), e.to_float(dot.total()), block.scale(group))
        e.store(e.at(out, e.vector_bytes * group), value, 4)
    b.ret_void()
    text = str(module)
    assert "llvm.x86" not in text
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(module.triple)
    machine = target.create_target_machine(cpu=isa.cpu, features=isa.features, opt=3)
    return str(machine.emit_assembly(binding.parse_assembly(text)))


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("name", ["Q8_0", "Q4_1", "IQ4_NL", "Q6_K"])
def test_arm_products_use_sdot(name: str, lanes: int) -> None:
    fmt = by_name(name)
    isa = variant(None, ARM)
    assert (isa.name, isa.has_dotprod, isa.vector_registers) == ("dotprod", True, 32)
    assert isa.registers_of(8) == 16  # a vector of eight floats takes two
    wanted = fmt.block_size * lanes // 16  # of 16 products each
    assert len(re.findall(r"\bsdot\b", arm_assembly(isa, lanes, fmt.type_id))) == wanted


def test_arm_products_without_sdot() -> None:
    isa = variant("portable", ARM)
    assert not isa.has_dotprod
    assert not re.search(r"\bsdot\b", arm_assembly(isa, 8, by_name("Q8_0").type_id))


@pytest.mark.parametrize("type_id", strips(variant(None, ARM)))
def test_every_reader_compiles_for_arm(type_id: int) -> None:
    assert "sdot" in arm_assembly(variant(None, ARM), 8, type_id)
