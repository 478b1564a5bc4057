"""Who may import whom: the layers of docs/structure.md, kept.

A room is a file or folder of `edgellm/` (`kernels/` has one room per file or folder in it). A room
imports rooms of lower layers, and itself; never one above it, never one beside it.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgellm

ROOT = Path(__file__).parent.parent

# Top to bottom.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("", "__main__"),
    ("cli",),
    ("tui", "lsp"),
    ("server",),
    ("quantize",),
    ("eval", "bench", "convert"),
    ("llm", "client"),
    ("manager",),
    ("answers", "embeddings", "model_loader"),
    ("model_pool",),
    ("loaded_model", "fit"),
    ("sessions", "ready"),
    ("binding",),
    ("load_plan",),
    ("placement", "engine_thread"),
    ("engine", "backends", "kv_plan", "summary", "chat_template", "pull"),
    ("multi_step", "backend_kinds"),
    ("guessing",),
    ("beam_search", "mixed", "fim", "drafters", "dialects", "consumers"),
    (
        "model_runner",
        "generation",
        "pooling",
        "scheduler",
        "catalog",
        "machine",
        "adapter_files",
        "cold_experts",
    ),
    (
        *("block_tables", "models", "kv_cache", "sampling", "detokenize", "sources"),
        *("completion", "indent", "advice", "constraints", "wire"),
        *("decode_batch", "consumer"),
    ),
    ("pins", "shared_prefix", "shares", "sequence_states"),
    ("prefix_tree", "tokenizer", "memory"),
    ("block_pool", "sequence", "limits", "step_cost", "stopwatch", "prefix_nodes", "model_source"),
    ("kernels.best",),
    ("kernels.cpu", "kernels.opencl", "kernels.reference"),
    ("kernels.ops", "kernels.split"),
    ("kernels.program", "kernels.batch", "kernels.kv", "kernels.small_pages", "kernels.draw"),
    ("kernels.formats", "kernels.seals"),
    ("kernels", "gguf_loader", "types", "holes", "config"),
    ("sampling_params",),
    ("sampling_kinds",),
    ("options",),
    ("session_file", "token_file"),
    (
        *("errors", "version", "linux", "paths", "old_folders", "new_file", "escapes", "signals"),
        *("median", "piped_process"),
    ),
)
RANK = {room: len(LAYERS) - i for i, layer in enumerate(LAYERS) for room in layer}

# Rooms that see less than their layer would let them.
ONLY = {
    "tui": {
        "client",
        "dialects",
        "types",
        "sampling_params",
        "options",
        "errors",
        "paths",
        "escapes",
    },
    "lsp": {"client", "types", "holes", "config", "errors", "version", "indent"},
    "gguf_loader": {"errors", "new_file"},
    "kernels.formats": {"errors"},
    "kernels.program": {"kernels.formats", "errors"},
    "kernels.ops": {"kernels.program", "kernels.formats", "errors"},
    "kernels.split": {"kernels.program"},
    "kernels.batch": {"errors"},
    "kernels.draw": set(),
    "kernels.kv": {"errors"},
    "kernels.small_pages": set(),
    "kernels.seals": set(),
    "kernels.reference": {
        "kernels.formats",
        "kernels.ops",
        "kernels.program",
        "kernels.batch",
        "kernels.draw",
        "kernels.kv",
        "errors",
    },
    "kernels.best": {"kernels.cpu", "kernels.draw"},
    "kernels.cpu": {
        "kernels.formats",
        "kernels.ops",
        "kernels.program",
        "kernels.batch",
        "kernels.draw",
        "kernels.kv",
        "kernels.small_pages",
        "kernels.seals",
        "errors",
        "linux",
        "piped_process",
    },
    "kernels.opencl": {
        "kernels.formats",
        "kernels.ops",
        "kernels.program",
        "kernels.batch",
        "kernels.draw",
        "kernels.kv",
        "kernels.seals",
        "errors",
    },
}

# Libraries that only these rooms may import.
OWNERS = {
    "numba": {"kernels.cpu"},
    "llvmlite": {"kernels.cpu"},
    "pyopencl": {"kernels.opencl"},
    "gguf": {"kernels.formats", "convert"},
    "textual": {"tui"},
    "textual_serve": {"tui"},
    "aiohttp": {"tui"},
    "pygls": {"lsp"},
    "lsprotocol": {"lsp"},
    "jinja2": {"chat_template"},
    "regex": {"tokenizer", "convert"},
    "huggingface_hub": {"pull"},
    "llguidance": {"constraints"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "h11": {"client"},
    "threadpoolctl": {"quantize"},
}
WITHOUT_NUMPY = {
    "scheduler",
    "block_pool",
    "sequence",
    "types",
    "sampling_params",
    "options",
    "errors",
    "config",
}


def modules() -> dict[str, Path]:
    """Every module of the checkout by the name it is imported under."""
    found = {}
    for folder in ("edgellm", "kernels", "gguf_loader", "tui"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if parts[0] == "edgellm" else ("edgellm", *parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def room(module: str) -> str:
    parts = module.split(".")[1:]
    return ".".join(parts[: 2 if parts[:1] == ["kernels"] else 1])


def imports(path: Path) -> Iterator[str]:
    """The modules a file imports, wherever in it and whether for types alone."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in MODULES else node.module


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module: str) -> None:
    own = room(module)
    assert own in RANK, f"{module} has no layer: give its room one in LAYERS and docs/structure.md"
    for target in imports(MODULES[module]):
        name = target.partition(".")[0]
        assert name not in {"kernels", "gguf_loader", "tui"}, f"{module}: import edgellm.{target}"
        assert own in OWNERS.get(name, {own}), f"{module} imports {name}: not its library"
        assert name != "numpy" or own not in WITHOUT_NUMPY, f"{module} imports numpy"
        if name != "edgellm" or room(target) == own:
            continue
        assert RANK[room(target)] < RANK[own], f"{module} imports {target}, which is not below it"
        assert room(target) in ONLY.get(own, {room(target)}), f"{module} may not see {target}"


def test_the_tables_name_rooms() -> None:
    assert {*ONLY, *WITHOUT_NUMPY}.union(*ONLY.values(), *OWNERS.values()) <= RANK.keys()


def loaded_after(code: str) -> set[str]:
    """The modules a fresh interpreter has loaded after running `code`."""
    script = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


HEAVY = {"numpy", "numba", "llvmlite", "pyopencl", "textual", "jinja2", "gguf", "rich", "asyncio"}


@pytest.mark.parametrize(
    "code",
    [
        "import edgellm; edgellm.__version__; dir(edgellm)",
        "from edgellm.cli import main; main(['--help'])",
        "import edgellm.scheduler, edgellm.block_pool",
    ],
)
def test_light_imports(code: str) -> None:
    assert not loaded_after(code) & HEAVY


def test_a_model_opens_without_compilers_and_front_ends() -> None:
    loaded = loaded_after("import edgellm; edgellm.load, edgellm.Model")
    assert not loaded & HEAVY - {"numpy"} and not loaded & {"llguidance", "psutil"}


def test_no_module_is_imported_under_two_names() -> None:
    loaded = loaded_after("import edgellm.kernels.ops, edgellm.gguf_loader, edgellm.llm")
    assert not loaded & {"kernels", "gguf_loader", "tui"}


def test_every_public_name_resolves() -> None:
    for name in edgellm.__all__:
        assert getattr(edgellm, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        edgellm.nothing  # noqa: B018


PAGE = (ROOT / "docs" / "structure.md").read_text("utf-8")


def test_the_page_has_one_row_for_each_room() -> None:
    cells = re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)
    named = [name.strip("`") for cell in cells for name in cell.split(", ")]
    assert sorted(named) == sorted(RANK.keys() - {"", "__main__", "kernels"})


def test_the_page_shows_the_layers() -> None:
    section = PAGE.partition("## Who may import whom")[2]
    shown = section.partition("```\n")[2].partition("```")[0].splitlines()
    layers = [" ".join(sorted(line.split())) for line in shown]
    assert layers == [
        " ".join(sorted(set(layer) - {"kernels"})) for layer in LAYERS if "" not in layer
    ]
