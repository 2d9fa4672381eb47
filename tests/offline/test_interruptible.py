import duckdb
import pytest

from tfagents_batch.offline import interruptible

ENDLESS = "SELECT max(hash(range)) FROM range(1000000000000000)"


def test_an_exception_in_the_calling_thread_ends_the_statement():
    def stop(part):
        assert 0 <= part <= 1
        raise KeyboardInterrupt  # as a signal handler does

    with duckdb.connect() as connection:
        with pytest.raises(KeyboardInterrupt):
            interruptible.run(connection, lambda: connection.execute(ENDLESS), stop)
        assert connection.execute("SELECT 3").fetchall() == [(3,)]
