"""Bytes of files that end with a checksum. Knows nothing of what they are."""

import hashlib

_SEAL_BYTES = 32


def sealed(name: str, data: bytes) -> bytes:
    """What to store under a name, of which the seal is, too, so that none stands for another."""
    return data + hashlib.sha256(name.encode() + data).digest()


def unsealed(name: str, stored: bytes | None) -> bytes | None:
    """The data; None where nothing is stored, or it is cut short, damaged or another's."""
    if stored is None:
        return None
    data = stored[:-_SEAL_BYTES]
    return data if stored == sealed(name, data) else None
