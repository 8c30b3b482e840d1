"""The shop's chat: ``uvicorn shop.chat:app``."""

from shop.db import sessions
from shop.models import Material, Order, Part
from shop.settings import TORTOISE

from app.main import create_app
from schema import Managers

managers = Managers(sessions=sessions, tortoise=TORTOISE)
managers.expose(Part, aliases=("component",), use_when="designed or purchased parts")
managers.expose(Material, hide=("purchase_price",))
managers.expose(Order, visible=lambda actor: {"owner__subject": actor.subject})

app = create_app(managers)
