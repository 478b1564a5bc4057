"""What the server adds to a token: processor time of its event loop, per token sent.

python benchmarks/server_overhead.py --tokens 2000 --streams 1 8

The engine is real and its model a few lines of Python that always say the same, so that nothing
but the engine's loop and the server works. Processor time of the loop's thread is counted, not
time that passes: other programs on the machine disturb it less. `in process` is the same stream
without a server; what a stream costs beyond it is the server's.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

import numpy as np

from edgellm.client import LocalClient
from edgellm.server.listen import unix_listener
from edgellm.types import Request, SamplingParams
from tests.mock_model import VOCAB_SIZE, MockModel, make_manager
from tests.server.serving import serving

BLOCK_SIZE = 4  # tokens, of the scripted engine
STEP_SECONDS = 5e-4
MESSAGES = [{"role": "user", "content": "hi"}]
READER = """
import asyncio, sys
from edgellm.client.http import exchange, parse_address
async def main():
    address = parse_address(sys.argv[1])
    async with exchange(address, "POST", sys.argv[2], sys.argv[3].encode()) as response:
        assert response.status == 200
        async for piece in response.pieces():
            pass
asyncio.run(main())
"""


def requests(tokens: int) -> dict[str, dict[str, object]]:
    """The body to send to each route."""
    params = {"temperature": 0, "max_tokens": tokens}
    chat = {**params, "messages": MESSAGES, "stream": True}
    options = {"temperature": 0, "num_predict": tokens}
    return {
        "/v1/chat/completions": chat,
        "/v1/messages": chat,
        "/completion": {**params, "prompt": "hi", "stream": True},
        "/api/chat": {"messages": MESSAGES, "options": options},
        "/edgellm/v1/submit": {"prompt": [1, 2], "params": params},
    }


async def in_process(client: LocalClient, tokens: int) -> float:
    """Seconds of processor time per token without a server."""
    params = SamplingParams(temperature=0, max_tokens=tokens)
    begun = time.thread_time()
    async with aclosing(client.submit(Request((1, 2), params))) as events:
        async for _ in events:
            pass
    return (time.thread_time() - begun) / tokens


async def served(where: str, route: str, body: bytes, streams: int, tokens: int) -> float:
    """The same with a server, and readers in processes of their own."""
    command = [sys.executable, "-c", READER, where, route, body.decode()]
    readers = [await asyncio.create_subprocess_exec(*command) for _ in range(streams)]
    begun = time.thread_time()
    codes = await asyncio.gather(*(reader.wait() for reader in readers))
    assert not any(codes)
    return (time.thread_time() - begun) / tokens / streams


async def measure(tokens: int, streams: list[int]) -> None:
    row = np.zeros(VOCAB_SIZE, np.float32)
    row[ord("x")] = 9.0
    model = MockModel(lambda ids, num_prompt_tokens: row, delay=STEP_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        listener = unix_listener(Path(folder) / "overhead.sock")
        context = tokens + 64
        blocks = context // BLOCK_SIZE * (max(streams) + 1)
        manager = make_manager(
            model,
            context_length=context,
            num_blocks=blocks,
            max_num_seqs=max(streams),
            token_budget=8 + max(streams),
        )
        async with LocalClient(manager) as client, serving(client, listener):
            print(f"{'in process':<24} 1 stream  {await in_process(client, tokens) * 1e6:8.1f} us")
            for count in streams:
                for route, fields in requests(tokens).items():
                    body = json.dumps(fields).encode()
                    cost = await served(listener.where, route, body, count, tokens)
                    print(f"{route:<24} {count} streams {cost * 1e6:8.1f} us", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8])
    args = parser.parse_args()
    asyncio.run(measure(args.tokens, args.streams))


if __name__ == "__main__":
    main()
