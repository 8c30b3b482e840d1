"""What the model says in the tests."""

from providers.scripted import Script, call, say

script = Script(
    [
        call("query", manager="Part", fields=["name", "price", {"material": ["name"]}]),
        call("get_manager_schema", manager="Material"),
    ],
    say("Two parts."),
    *[
        completion
        for _ in range(3)
        for completion in (
            call("query", manager="Order", filters={"total__lt": 100}),
            say("These are the orders."),
        )
    ],
)
