"""One session of Spark for the tests of this folder."""

import pytest

from tfagents_batch.offline.reading import session


@pytest.fixture(scope="package")
def spark():
    with session.started("local[2]") as found:
        yield found
