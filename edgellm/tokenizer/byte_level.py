"""The byte alphabet of GPT-2: every byte as one printable character. Knows nothing of vocabularies.

Source: `bytes_to_unicode` in OpenAI's GPT-2 encoder. Printable Latin-1 stands for itself; the other
68 bytes, in order, become U+0100 and up, so a space is "Ġ" and a newline is "Ċ".
"""


def _alphabet() -> str:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in printable else next(moved)) for byte in range(256))


ALPHABET = _alphabet()  # ALPHABET[byte] is the character of that byte

_CHARACTER_OF = dict(enumerate(ALPHABET))
_BYTE_OF = {character: byte for byte, character in enumerate(ALPHABET)}


def encode_bytes(text: str) -> str:
    """The UTF-8 bytes of a text, each as its character."""
    return text.encode().decode("latin-1").translate(_CHARACTER_OF)


def decode_bytes(token: str) -> bytes:
    """The bytes a token stands for; a token with characters outside the alphabet is plain text."""
    try:
        return bytes([_BYTE_OF[character] for character in token])
    except KeyError:
        return token.encode()
