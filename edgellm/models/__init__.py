"""Model definitions: from a file's metadata and tensors to a Program.

config = read_config(file)
program = record(file, config, context_length)
"""

from edgellm.models.adapters import Adapter, read_adapter
from edgellm.models.architecture import Architecture
from edgellm.models.config import ModelConfig
from edgellm.models.config_reader import read_config
from edgellm.models.decoder import record, record_with_head
from edgellm.models.mtp import MTPHead
from edgellm.models.pooled_head import PooledHead, read_pooled_head
from edgellm.models.registry import ARCHITECTURES

__all__ = [
    "ARCHITECTURES",
    "Adapter",
    "Architecture",
    "MTPHead",
    "ModelConfig",
    "PooledHead",
    "read_adapter",
    "read_config",
    "read_pooled_head",
    "record",
    "record_with_head",
]
