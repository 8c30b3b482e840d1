"""The language of Frontdesk: managers, their schema, and the tools that read them."""

from schema.errors import ToolFailed, ToolRetry
from schema.events import Actor
from schema.managers import Managers
from schema.resolver import Page
from schema.tools import ToolContext

__all__ = ["Actor", "Managers", "Page", "ToolContext", "ToolFailed", "ToolRetry"]
