"""Settings of the shop."""

TORTOISE: dict[str, object] = {
    "connections": {"default": "sqlite://orders.db"},
    "apps": {"shop": {"models": ["shop.models"]}},
}
