"""What a run leaves undone when it is cut off, and how its own log and entries make it good.

A log may end anywhere: within a text, or behind calls that nobody will answer any more. History has
every text that was shown, and each call with one result. Source: design.md 3.
"""

from dataclasses import replace

import orjson

from app.database import Connection
from app.entries import NewEntry, StoredEntry, interrupted_call
from app.records import logged, run_entries
from schema.events import CallId, Json, JsonObject, RunId, ToolResult


def owed(connection: Connection, run_id: RunId) -> list[ToolResult | NewEntry]:
    """Return what is missing from a run's log and entries so that they can end where they stop."""
    remains = _Remains({entry.seq: entry for entry in run_entries(connection, run_id)})
    for event in logged(connection, run_id):
        remains.see(event)
    return remains.items()


class _Remains:
    """What the events so far have shown and no entry holds.

    Texts and calls that follow an answered call, or nothing, are the next round's.
    """

    def __init__(self, entries: dict[int, StoredEntry]) -> None:
        self._entries = entries
        self._texts: list[str] = []
        self._calls: dict[str, NewEntry] = {}
        self._round, self._is_answered = 0, True

    def see(self, event: JsonObject) -> None:
        """Take the next event of the log; what is of no concern here is passed over."""
        match event:
            case {"type": "text_chunk", "content": str(content)}:
                self._go_on()
                self._texts.append(content)
            case {"type": "tool_call", "id": str(id), "name": str(name), "args": args}:
                self._go_on()
                arguments = orjson.dumps(args).decode()
                self._calls[id] = NewEntry(
                    "action", "", self._round, name, CallId(id), arguments, status="interrupted"
                )
            case {"type": "tool_result", "id": str(id), "result": result} if id in self._calls:
                self._is_answered = True
                self._calls[id] = replace(
                    self._calls[id], result=orjson.dumps(result).decode(), status=_status(result)
                )
            case {"type": "entry", "entry_seq": int(seq)} if seq in self._entries:
                self._strike_out(self._entries[seq])
            case _:
                pass

    def items(self) -> list[ToolResult | NewEntry]:
        """Return what is owed, in the order of a turn."""
        text, lost = "".join(self._texts), interrupted_call()
        results = [
            ToolResult(id=id, name=call.name or "", result=lost)
            for id, call in self._calls.items()
            if call.result is None
        ]
        shown = orjson.dumps(lost).decode()
        calls = [replace(call, result=call.result or shown) for call in self._calls.values()]
        said = [NewEntry("assistant", text, round=self._round)] if text else []
        return [*said, *results, *calls]

    def _go_on(self) -> None:
        if self._is_answered:
            self._round, self._is_answered = self._round + 1, False

    def _strike_out(self, entry: StoredEntry) -> None:
        if entry.kind == "assistant":
            self._texts.clear()
        elif entry.call_id is not None:
            self._calls.pop(entry.call_id, None)


def _status(result: Json) -> str:
    match result:
        case {"status": "error", "code": str(), "message": str()}:
            return "failed"
        case _:
            return "succeeded"
