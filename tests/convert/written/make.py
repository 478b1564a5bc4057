"""Makes the files of this folder with llama.cpp's converter and what it needs, which CI does not
have:

    python -m tests.convert.written.make LLAMA_CPP [NAME ...]

LLAMA_CPP is a folder with its sources. Each model has a process of its own: the converter's maps of
names remember the last one. Holds no tests.
"""

import json
import multiprocessing
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.convert.checkpoints import save_safetensors
from tests.convert.golden import weights_of
from tests.convert.written import FOLDER, summary
from tests.convert.written.models import MODELS


def make(name: str) -> None:
    import gguf
    from conversion import get_model_class

    config, shapes = MODELS[name]
    config = {"architectures": [name], **config}
    model_class: Any = get_model_class(name)
    model_class.set_vocab = lambda self: None
    model_class._get_suppress_tokens = lambda self: None
    with TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "config.json").write_text(json.dumps(config))
        (path / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece"}}))
        save_safetensors(path / "model.safetensors", weights_of(shapes))
        model_class(path, gguf.LlamaFileType.ALL_F32, path / "out.gguf", eager=True).write()
        written = gguf.GGUFReader(path / "out.gguf")
        tensors = {
            tensor.name: [tensor.shape.tolist(), summary(np.asarray(tensor.data))]
            for tensor in written.tensors
        }
        keys = {
            key: field.contents()
            for key, field in written.fields.items()
            if not key.startswith("GGUF.")
        }
    found = {"config": config, "shapes": shapes, "keys": keys, "tensors": tensors}
    (FOLDER / f"{name}.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")
    print(name)


def main(sources: str, names: list[str]) -> None:
    sys.path[1:1] = [f"{sources}/gguf-py", sources]
    for name in names or MODELS:
        process = multiprocessing.get_context("fork").Process(target=make, args=(name,))
        process.start()
        process.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
