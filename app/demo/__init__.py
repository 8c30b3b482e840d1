"""Domains to try Frontdesk on; each creates and loads its own tables on a fresh database."""

DEMOS: dict[str, str] = {
    "flights": "app.demo.flights:managers",
    "large": "app.demo.large:managers",
    "manufacturing": "app.demo.manufacturing:managers",
    "toy": "app.demo.toy:managers",
}
"""The demos by name, each with the import path of its managers."""
