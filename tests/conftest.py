"""Fixtures that every room's tests may use: the oracle folder, the real models, a full disk."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault.
settings.register_profile("edgellm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("edgellm")


@pytest.fixture(scope="session", autouse=True)
def sessions_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test saves a session among the user's own."""
    folder = tmp_path_factory.mktemp("sessions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgellm.sessions.sessions_dir", lambda: folder)
        yield


@pytest.fixture(scope="session")
def opencl() -> None:
    """Skips those who ask for it where no OpenCL device works."""
    pytest.importorskip("pyopencl", reason="the test extra installs pyopencl and drivers")
    from edgellm.errors import BackendError
    from edgellm.kernels.opencl import OpenCLBackend

    try:
        OpenCLBackend(None)
    except BackendError as error:
        pytest.skip(f"no OpenCL device works here: {error}")
    finally:
        os.environ.pop("PYOPENCL_HOME", None)  # set by the import, read once by the driver loader


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No byte of a new file finds room."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    fdopen = os.fdopen

    def full(handle: int, mode: str) -> object:
        os.close(handle)
        return fdopen(os.open("/dev/full", os.O_WRONLY), mode)

    monkeypatch.setattr("edgellm.new_file.os.fdopen", full)


@pytest.fixture(scope="session")
def oracle() -> Path:
    """The folder of exact logits and golden tokens."""
    where = os.environ.get("EDGELLM_ORACLE")
    if not where:
        pytest.skip("EDGELLM_ORACLE is not set: no folder of golden results to compare with")
    return Path(where)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct, from EDGELLM_TEST_MODELS or pulled once into the model folder."""
    given = os.environ.get("EDGELLM_TEST_MODELS")
    if given and (path := Path(given) / "smollm2.gguf").exists():
        return path
    from edgellm.catalog import load_catalog
    from edgellm.errors import CatalogError
    from edgellm.pull import pull

    try:
        return pull(load_catalog()["smollm2"])
    except CatalogError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"SmolLM2 cannot be fetched: {error}")


@pytest.fixture(scope="session")
def real_models() -> dict[str, Path]:
    """The other two real models by name (gemma3, qwen05b), those that are there."""
    given = os.environ.get("EDGELLM_TEST_MODELS")
    names = ("gemma3", "qwen05b")
    found = {n: Path(given) / f"{n}.gguf" for n in names} if given else {}
    return {name: path for name, path in found.items() if path.exists()}
