"""The language of Frontdesk: managers, their schema, and the tools that read them."""

from schema.errors import ToolFailed, ToolRetry
from schema.managers import Managers
from schema.tools import ToolContext

__all__ = ["Managers", "ToolContext", "ToolFailed", "ToolRetry"]
