"""llama.cpp's description of the server and its model: what its clients look at first."""

from edgellm.dialects import dialect_of
from edgellm.server.llama_settings import generation_settings
from edgellm.server.routes import Call, Reply, Route, refused
from edgellm.types import ModelDetails, SamplingParams
from edgellm.version import __version__

_NO_MEDIA = "<__media__>"  # stands for an image in a prompt of llama.cpp's; none is read here


async def props(call: Call) -> Reply:
    info = await call.service.model(call.query.get("model"))
    details = await call.service.client.details(info.name)
    return {
        "default_generation_settings": {
            "params": generation_settings(SamplingParams(**info.sampling), {}),
            "id": 0,
            "n_ctx": info.context_length,
            "is_processing": False,
        },
        "total_slots": info.max_num_seqs,
        "model_alias": info.name,
        "model_path": info.name,
        "model_ftype": details.quantization,
        "modalities": {"vision": False, "video": False, "audio": False},
        "media_marker": _NO_MEDIA,
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": True,
        "ui": False,
        "ui_settings": {},
        "chat_template": details.chat_template,
        "chat_template_caps": capabilities(details),
        "bos_token": details.bos_text,
        "eos_token": details.eos_text,
        "build_info": f"edgellm-{__version__}",
        "is_sleeping": False,
        "cors_proxy_enabled": False,
    }


def capabilities(details: ModelDetails) -> dict[str, bool]:
    """What conversations may hold, by llama.cpp's names.

    Content is shaped as the template takes it. Of tools it tells whether the template writes them:
    calls can be asked of any model.
    """
    source = details.tool_template or details.chat_template
    writes_tools = not dialect_of(source).is_taught
    writes_calls = writes_tools and "tool_calls" in source
    return {
        "supports_string_content": True,
        "supports_typed_content": True,
        "supports_system_role": "system" in source,
        "supports_tools": writes_tools,
        "supports_tool_calls": writes_calls,
        "supports_parallel_tool_calls": writes_calls,
        "supports_object_arguments": writes_calls,
        "supports_preserve_reasoning": "reasoning_content" in source,
        "supports_reasoning_effort": "reasoning_effort" in source,
    }


ROUTES = (
    Route("GET", "/props", props),
    refused("POST", "/props", "properties are set when the server is started"),
)
