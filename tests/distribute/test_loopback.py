"""Ray and Spark on one machine can be reached from that machine only."""

import pytest

from tests.install import extras
from tests.support import python

pytestmark = pytest.mark.slow

# In a process of its own: Ray never closes some descriptors.
LISTENING = """
import psutil

def listening():
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            connections = process.net_connections("inet")
        except psutil.Error:
            continue  # it has ended
        found |= {x.laddr.ip for x in connections if x.status == psutil.CONN_LISTEN}
    return {each.removeprefix("::ffff:") for each in found}
"""
RAY = """
from tfagents_batch.distribute import ray_session

with ray_session.session(None, 1) as ray:
    assert ray.get(ray.remote(lambda: 3).remote()) == 3
    print(*listening())
"""
SPARK = """
from tfagents_batch.offline.reading import session

with session.started("local[1]", "512m") as spark:
    assert spark.sparkContext.parallelize([1, 2]).map(abs).sum() == 3
    print(*listening())
"""


@pytest.mark.parametrize(("extra", "use"), [("ray", RAY), ("spark", SPARK)])
def test_engines_on_one_machine_listen_on_the_loopback_address(extra, use, tmp_path):
    extras.skip_without(extra)
    done = python.run(LISTENING + use, tmp_path, timeout=240)
    assert done.stdout.split() == ["127.0.0.1"]
