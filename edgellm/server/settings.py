"""What a server allows and how much it takes. Data only."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """api_keys: one of them must come with a request; empty: no key is asked for, any is ignored.

    hosts, origins: names of the Host and Origin headers that are taken besides loopback's; "*" is
    any. max_body: bytes. max_messages, max_header: messages of a conversation, bytes of headers.
    max_requests: generations in flight, more are told to come again. deadline: seconds a
    generation may take; read_deadline: seconds until a request has arrived. silence: seconds
    without anything sent after which a stream of events says that it goes on. any_path: models may
    be loaded by path, for a server whose only client is the process that started it. log_prompts:
    the log holds what was asked.
    """

    api_keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_body: int = 16 << 20
    max_header: int = 32 << 10
    max_messages: int = 4096
    max_requests: int = 256
    deadline: float = 3600.0
    read_deadline: float = 30.0
    silence: float = 15.0
    any_path: bool = False
    log_prompts: bool = False
