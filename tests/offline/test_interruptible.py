import duckdb
import pytest

from tfagents_batch.offline import interruptible

ENDLESS = "SELECT max(hash(range)) FROM range(1000000000000000)"


@pytest.fixture
def connection():
    with duckdb.connect() as connection:
        yield connection


def test_the_result_of_the_work_is_returned(connection):
    found = interruptible.run(
        connection, lambda: connection.execute("SELECT 3").fetchall()
    )
    assert found == [(3,)]


def test_an_error_of_a_statement_is_raised(connection):
    with pytest.raises(duckdb.ParserException):
        interruptible.run(connection, lambda: connection.execute("SELEKT"))


def test_an_exception_in_the_calling_thread_ends_the_statement(connection):
    def stop(part):
        assert 0 <= part <= 1
        raise KeyboardInterrupt  # as a signal handler does

    with pytest.raises(KeyboardInterrupt):
        interruptible.run(connection, lambda: connection.execute(ENDLESS), stop)
    assert connection.execute("SELECT 3").fetchall() == [(3,)]
