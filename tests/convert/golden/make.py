"""Makes the files of this folder with `transformers` and `torch`, which CI does not have:

    python -m tests.convert.golden.make [NAME ...]

Holds no tests.
"""

import json
import sys
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.convert.checkpoints import save_safetensors
from tests.convert.golden import FOLDER, weights_of
from tests.convert.golden.models import MODELS

IDS = [1, 5, 9, 33, 60, 7, 7, 22, 41, 3, 58, 12, 30, 2]


def make(name: str, kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    import torch
    import transformers
    from safetensors import safe_open

    torch.manual_seed(0)
    model_class = getattr(transformers, kind)
    config = model_class.config_class(**settings)
    config._attn_implementation = "eager"
    with TemporaryDirectory() as folder:
        made = model_class(config).float()
        made.save_pretrained(folder)
        follow = {name for name, _ in made.named_buffers()}  # from settings
        path = Path(folder) / "model.safetensors"
        with safe_open(path, "numpy") as file:
            stored = [name for name in file.keys() if name not in follow or "bias" in name]
            shapes = {n: tuple(file.get_slice(n).get_shape()) for n in stored}
        save_safetensors(path, weights_of(shapes))
        model, report = model_class.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        report["missing_keys"] = set(report["missing_keys"]) - follow
        wrong = {k: v for k, v in report.items() if v}
        assert not wrong, wrong
        config = json.loads((Path(folder) / "config.json").read_text())
        with torch.no_grad():
            out = model.eval()(input_ids=torch.tensor([IDS]), **_more(kind))
    key = "logits" if hasattr(out, "logits") and out.logits is not None else "hidden"
    rows = (out.logits if key == "logits" else out.last_hidden_state)[0].numpy().astype("<f4")
    key = "scores" if kind.endswith("SequenceClassification") else key
    assert np.isfinite(rows).all()
    config["architectures"] = [kind]
    for dropped in ("transformers_version", "dtype", "_name_or_path"):
        config.pop(dropped, None)
    return {
        "config": config,
        "shapes": {n: list(shape) for n, shape in shapes.items()},
        "ids": IDS,
        key: b64encode(rows.tobytes()).decode(),
    }


def _more(kind: str) -> dict[str, Any]:
    return (
        {}
        if kind.endswith("Model") or kind.startswith(("Mamba", "FalconM"))
        else {"use_cache": False}
    )


def main(names: list[str]) -> None:
    for name, (kind, settings) in MODELS.items():
        if names and name not in names:
            continue
        try:
            made = make(name, kind, settings)
        except Exception as error:  # the next one may do
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
            continue
        (FOLDER / f"{name}.json").write_text(json.dumps(made, separators=(",", ":")) + "\n")
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
