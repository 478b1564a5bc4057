"""One server with a scripted model for the tests of a file."""

from collections.abc import Iterator

import pytest

from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import Running, running

SAID = "The sky is\nblue."


@pytest.fixture(scope="session", autouse=True)
def nothing_stored() -> Iterator[None]:
    """What is stored on the machine that tests is of no matter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgellm.pull.stored_models", list)
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Says SAID whatever it is asked, on TCP and on a Unix socket."""
    folder = tmp_path_factory.mktemp("socket")
    with running(make_manager(MockModel(says(SAID))), folder) as found:
        yield found
