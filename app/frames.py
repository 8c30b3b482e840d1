"""The form that events have in a run's log and in a stream: SSE frames, written and taken apart.

Shape: ``id: <run id>:<seq>``, a line of ``data: <JSON>``, an empty line. Source: design.md 3 and 4.
"""

from collections.abc import Iterator

from schema.events import Event, RunId, encode

_TYPE_AT = len(b'{"type":"')


def frame(run_id: RunId, seq: int, event: Event) -> bytes:
    """Write one event as clients and the log have it."""
    return frame_json(run_id, seq, encode(event))


def frame_json(run_id: RunId, seq: int, event: bytes) -> bytes:
    """Write an event that is JSON already."""
    return b"id: %b:%d\ndata: %b\n\n" % (run_id.encode(), seq, event)


def unnumbered(event: Event) -> bytes:
    """Write an event that is of no run, or that is not in its log."""
    return b"data: %b\n\n" % encode(event)


def framed(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Take frames apart: numbers, and the JSON of events, which holds no line breaks."""
    for part in data.split(b"\n\n")[:-1]:
        id, _, event = part.partition(b"\ndata: ")
        yield int(id.rpartition(b":")[2]), event


def event_type(event: bytes) -> str:
    """Read the type of an event's JSON, which it begins with."""
    return event[_TYPE_AT : event.index(b'"', _TYPE_AT)].decode()
