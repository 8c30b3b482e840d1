"""What a conversation keeps can be read again, by its owner."""

from transports import open_chat

from app.bodies import Entry
from app.demo.manufacturing import managers
from providers.scripted import call, fail, say


async def test_a_turn_is_kept_as_question_evidence_and_answer(manufacturing_url: str) -> None:
    async with open_chat("http", managers, manufacturing_url) as chat:
        query = call("query", manager="Material", fields=["name"], filters={"name": "Steel"})
        chat.model.will([say("Looking. "), query], say("Steel."))
        answer = await chat.browser.post("/chat/", {"text": "Is there steel?"})
        page = await chat.browser.client.get(
            f"/chat/conversations/{answer.headers['x-conversation-id']}/entries/"
        )
    events, body = answer.json()["events"], page.json()
    assert body["next"] is None
    assert [entry["seq"] for entry in body["items"]] == [1, 2, 3, 4]
    assert {tuple(entry) for entry in body["items"]} == {tuple(Entry.model_fields)}
    assert {entry["run_id"] for entry in body["items"]} == {answer.headers["x-run-id"]}
    assert [(entry["kind"], entry["content"], entry["round"]) for entry in body["items"]] == [
        ("user", "Is there steel?", 0),
        ("assistant", "Looking. ", 1),
        ("action", "", 1),
        ("assistant", "Steel.", 2),
    ]
    action = body["items"][2]
    shown = {event["type"]: event for event in events}
    assert (action["name"], action["status"]) == ("query", "succeeded")
    assert action["call_id"] == shown["tool_call"]["id"]
    assert action["arguments"] == shown["tool_call"]["args"]
    assert action["result"] == shown["tool_result"]["result"]


async def test_a_turn_that_fails_keeps_its_partial_text_and_its_error(
    manufacturing_url: str,
) -> None:
    async with open_chat("http", managers, manufacturing_url) as chat:
        chat.model.will([say("There are "), fail(RuntimeError("secret"))])
        answer = await chat.browser.post("/chat/", {"text": "How many?"})
        page = await chat.browser.client.get(
            f"/chat/conversations/{answer.headers['x-conversation-id']}/entries/"
        )
    assert [(e["kind"], e["content"], e["name"]) for e in page.json()["items"]] == [
        ("user", "How many?", None),
        ("assistant", "There are ", None),
        ("error", "The request could not be completed.", "chat_error"),
    ]


async def test_entries_are_read_in_pages(manufacturing_url: str) -> None:
    async with open_chat("http", managers, manufacturing_url) as chat:
        chat.model.will(*4 * [say("ok")])
        answers = [await chat.browser.post("/chat/", {"text": "hi"}) for _ in range(4)]
        path = f"/chat/conversations/{answers[0].headers['x-conversation-id']}/entries/"
        read: list[int] = []
        after: int | None = 0
        while after is not None:
            page = (await chat.browser.client.get(path, params={"after": after, "limit": 3})).json()
            assert len(page["items"]) <= 3
            read += [entry["seq"] for entry in page["items"]]
            after = page["next"]
    assert read == list(range(1, 9))
