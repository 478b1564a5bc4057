"""The first 24 bytes: magic, version, byte order, counts. Knows what else a file may be."""

from dataclasses import dataclass

from edgellm.gguf_loader.reader import ByteOrder, Reader

MAGIC = b"GGUF"
VERSIONS = (2, 3)

_SIZE = 24

# What people open by mistake: first bytes -> what it is and what to do.
_OTHER_FILES = (
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint or a wheel), not a GGUF file"),
    (b"version https://git-lfs", "a Git LFS pointer, not the model: fetch the file itself"),
    (b"<!", "a web page, not a model: the download failed or needs a log-in"),
    (b"<html", "a web page, not a model: the download failed or needs a log-in"),
    (b"lmgg", "an old GGML file, from before GGUF: convert the model again"),
    (b"fmgg", "an old GGML file, from before GGUF: convert the model again"),
    (b"tjgg", "an old GGML file, from before GGUF: convert the model again"),
)


@dataclass(frozen=True)
class Header:
    version: int
    byte_order: ByteOrder
    num_keys: int
    num_tensors: int


def read_header(reader: Reader) -> Header:
    """Read the header and set the reader's byte order."""
    _check_magic(reader)
    reader.need(_SIZE, "the GGUF header")
    reader.position = len(MAGIC)
    version = _read_version(reader)
    # One byte each is a loose bound: a file that is cut later is to name the key it is cut in.
    num_tensors = reader.count(1, "tensors")
    num_keys = reader.count(1, "keys")
    return Header(version, reader.byte_order, num_keys, num_tensors)


def _check_magic(reader: Reader) -> None:
    start = reader.map[:32]
    if start[:4] == MAGIC:
        return
    for beginning, what in _OTHER_FILES:
        if start.startswith(beginning):
            raise reader.error(f"this is {what}")
    if start[8:9] == b"{":
        raise reader.error("this looks like a safetensors file: convert the model to GGUF first")
    raise reader.error(f"not a GGUF file: it begins with {start[:4]!r}, expected {MAGIC!r}")


def _read_version(reader: Reader) -> int:
    """The version, which also tells the byte order: it is a small number in only one of them."""
    at = reader.position
    version = reader.integer("I", "the version")
    if version and version & 0xFFFF == 0:
        reader.byte_order = "big"
        reader.position = at
        version = reader.integer("I", "the version")
    if version in VERSIONS:
        return version
    if version == 1:
        raise reader.error("GGUF version 1 is no longer supported, expected 2 or 3: convert again")
    raise reader.error(
        f"GGUF version {version} is not known, expected 2 or 3: the file is damaged, or a newer "
        "edgellm is needed"
    )
