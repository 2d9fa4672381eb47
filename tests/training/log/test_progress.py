import io

from tfagents_batch.training.log import progress


class Clock:
    now = 0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_pipe_gets_a_line_after_3_and_then_every_4_seconds():
    stream, clock = io.StringIO(), Clock()
    with progress.shown(stream, clock) as tell:
        for second in range(10):
            clock.now = second
            tell(second / 10, "reading rows")
    assert stream.getvalue() == (
        " 30%  reading rows  0:00:03 elapsed\n 70%  reading rows  0:00:07 elapsed\n"
    )


def test_a_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream, clock = Terminal(), Clock()
    with progress.shown(stream, clock) as tell:
        clock.now = 65
        tell(0.5, "writing [samples]")
    text = stream.getvalue()
    assert "writing [samples]  0:01:05 elapsed" in text
    assert "50%" in text and "━" in text


def test_a_closed_stream_does_not_stop_the_work():
    stream, clock = io.StringIO(), Clock()
    with progress.shown(stream, clock) as tell:
        stream.close()
        clock.now = 5
        tell(0.5, "writing samples")
