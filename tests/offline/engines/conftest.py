"""One session of Spark for all tests of this folder."""

import pytest

from tfagents_batch.offline.engines import session


@pytest.fixture(scope="package")
def spark():
    with session.started("local[2]") as found:
        yield found
