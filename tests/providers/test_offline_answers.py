"""Whole conversations with the offline provider over the demos and the real tools."""

from pathlib import Path

import pytest
from conftest import Asked, Desk

MAX_READS = 8
