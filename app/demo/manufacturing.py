"""A maker of machines: materials, suppliers, parts, and projects that use the parts.

It shows what exposing keeps back: a hidden field, a hidden manager, and rows that only signed-in
people see.
"""

from decimal import Decimal
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel

from schema import Managers
from schema.events import Actor


class ManufacturingTable(SQLModel, registry=registry(metadata=sa.MetaData())):
    """Base of this demo's tables: names here do not meet those of other domains."""


class Material(ManufacturingTable, table=True):
    """Raw materials that parts are made of."""

    id: int | None = Field(default=None, primary_key=True, description="Number of the material.")
    name: str = Field(unique=True, description="Name of the material, such as Aluminum.")
    density: Decimal = Field(
        max_digits=5, decimal_places=2, description="Density in grams per cubic centimetre."
    )
    purchase_price: Decimal = Field(
        max_digits=8, decimal_places=2, description="What a kilogram costs us, in euros."
    )

    parts: list["Part"] = Relationship(
        back_populates="material",
        sa_relationship_kwargs={"info": {"description": "The parts made of this material."}},
    )


class Supplier(ManufacturingTable, table=True):
    """Companies that deliver parts to us."""

    id: int | None = Field(default=None, primary_key=True, description="Number of the supplier.")
    name: str = Field(unique=True, description="Name of the company.")
    city: str = Field(description="City the company delivers from.")
    bank_account: str = Field(description="Account we pay to.")

    parts: list["Part"] = Relationship(
        back_populates="supplier",
        sa_relationship_kwargs={"info": {"description": "The parts this supplier delivers."}},
    )


class ProjectPart(ManufacturingTable, table=True):
    """How many pieces of a part a project uses: one line of its bill of materials."""

    project_id: int = Field(
        foreign_key="project.id", primary_key=True, description="Number of the project."
    )
    part_id: int = Field(
        foreign_key="part.id", primary_key=True, index=True, description="Number of the part."
    )
    quantity: int = Field(description="Pieces of the part that the project uses.")

    # The many-to-many relations write this table; these two only read it.
    project: "Project" = Relationship(
        sa_relationship_kwargs={
            "viewonly": True,
            "info": {"description": "The project that uses the part."},
        }
    )
    part: "Part" = Relationship(
        sa_relationship_kwargs={"viewonly": True, "info": {"description": "The part that is used."}}
    )


class Part(ManufacturingTable, table=True):
    """Parts in our catalogue, designed here or bought from suppliers."""

    id: int | None = Field(default=None, primary_key=True, description="Number of the part.")
    name: str = Field(unique=True, description="Name of the part.")
    price: Decimal = Field(
        max_digits=10, decimal_places=2, description="Price of one piece, in euros."
    )
    stock: int = Field(description="Pieces in stock.")
    material_id: int = Field(
        foreign_key="material.id", index=True, description="Number of the part's material."
    )
    supplier_id: int | None = Field(
        foreign_key="supplier.id",
        index=True,
        description="Number of the part's supplier; null if we make it ourselves.",
    )

    material: Material = Relationship(
        back_populates="parts",
        sa_relationship_kwargs={"info": {"description": "The material the part is made of."}},
    )
    supplier: Supplier | None = Relationship(
        back_populates="parts",
        sa_relationship_kwargs={
            "info": {
                "description": "The supplier that delivers the part; null if we make it ourselves."
            }
        },
    )
    projects: list["Project"] = Relationship(
        back_populates="parts",
        link_model=ProjectPart,
        sa_relationship_kwargs={"info": {"description": "The projects that use the part."}},
    )


class ProjectStatus(StrEnum):
    """How far a project is. Names equal values, so the database holds the words people use."""

    planned = "planned"
    active = "active"
    paused = "paused"
    completed = "completed"


class Project(ManufacturingTable, table=True):
    """Engineering projects and the parts they use."""

    id: int | None = Field(default=None, primary_key=True, description="Number of the project.")
    name: str = Field(unique=True, description="Name of the project.")
    status: ProjectStatus = Field(description="How far the project is.")
    confidential: bool = Field(description="Whether only signed-in people may see the project.")

    parts: list[Part] = Relationship(
        back_populates="projects",
        link_model=ProjectPart,
        sa_relationship_kwargs={"info": {"description": "The parts the project uses."}},
    )


class Payroll(ManufacturingTable, table=True):
    """What people earn; nobody asks the front desk about this."""

    id: int | None = Field(default=None, primary_key=True)
    person: str
    salary: Decimal = Field(max_digits=10, decimal_places=2)


_MATERIALS = {  # name: density, purchase price
    "Aluminum": ("2.70", "2.45"),
    "Steel": ("7.85", "0.95"),
    "Titanium": ("4.51", "38.00"),
    "Copper": ("8.96", "9.20"),
    "Brass": ("8.50", "6.75"),
    "Bronze": ("8.73", "8.10"),
    "Cast Iron": ("7.20", "0.80"),
    "Nylon": ("1.15", "3.60"),
    "Polycarbonate": ("1.20", "3.10"),
    "Carbon Fiber": ("1.60", "27.50"),
    "Rubber": ("1.10", "1.90"),
}

_SUPPLIERS = {  # name: city
    "Neckar Precision": "Stuttgart",
    "Rhône Composites": "Lyon",
    "Torino Castings": "Turin",
    "Göta Bearings": "Gothenburg",
    "Brabant Electronics": "Eindhoven",
    "Hallam Forge": "Sheffield",
    "Nervión Tubing": "Bilbao",
    "Naniwa Fasteners": "Osaka",
}

_PARTS: dict[
    str, tuple[tuple[str, str, int, str | None], ...]
] = {  # material: (name, price, stock, supplier), supplier None if made here
    "Aluminum": (
        ("Heat Sink", "12.80", 340, "Brabant Electronics"),
        ("Motor Mount", "18.50", 96, "Neckar Precision"),
        ("Wheel Rim", "64.00", 58, "Torino Castings"),
        ("Camera Housing", "41.25", 24, None),
        ("Mast Section", "129.00", 16, "Nervión Tubing"),
        ("Frame Tube", "52.40", 75, "Nervión Tubing"),
        ("Battery Tray", "33.90", 40, None),
        ("Guide Rail", "27.60", 120, "Neckar Precision"),
        ("Cable Tray", "14.10", 210, None),
    ),
    "Steel": (
        ("Hex Bolt M8", "0.18", 12500, "Naniwa Fasteners"),
        ("Hex Nut M8", "0.07", 14200, "Naniwa Fasteners"),
        ("Flat Washer M8", "0.03", 20000, "Naniwa Fasteners"),
        ("Drive Shaft", "86.00", 34, "Hallam Forge"),
        ("Ball Bearing 6204", "4.60", 880, "Göta Bearings"),
        ("Roller Bearing", "11.90", 260, "Göta Bearings"),
        ("Roller Chain", "23.50", 140, "Hallam Forge"),
        ("Chain Sprocket", "15.75", 90, "Hallam Forge"),
        ("Spur Gear", "19.20", 150, "Hallam Forge"),
        ("Helical Gear", "31.40", 64, "Hallam Forge"),
        ("Compression Spring", "1.35", 2400, "Naniwa Fasteners"),
        ("Base Plate", "48.00", 45, None),
        ("Door Hinge", "5.90", 300, "Naniwa Fasteners"),
        ("Brake Disc", "37.80", 72, "Torino Castings"),
    ),
    "Titanium": (
        ("Pedal Axle", "44.00", 60, "Neckar Precision"),
        ("Turbine Blade", "315.00", 12, "Hallam Forge"),
        ("Hull Fitting", "142.50", 18, "Neckar Precision"),
        ("Sensor Probe", "88.20", 30, "Neckar Precision"),
    ),
    "Copper": (
        ("Busbar", "21.70", 110, "Brabant Electronics"),
        ("Stator Winding", "56.30", 48, "Brabant Electronics"),
        ("Ground Strap", "6.40", 190, "Brabant Electronics"),
        ("Cooling Coil", "72.10", 22, "Nervión Tubing"),
        ("Crush Gasket", "0.95", 1600, "Nervión Tubing"),
    ),
    "Brass": (
        ("Gas Valve", "28.40", 66, "Torino Castings"),
        ("Burner Nozzle", "7.85", 180, None),
        ("Hose Coupling", "9.30", 240, "Nervión Tubing"),
        ("Pressure Gauge", "34.50", 52, "Neckar Precision"),
        ("Threaded Insert", "0.42", 5200, "Naniwa Fasteners"),
    ),
    "Bronze": (
        ("Sleeve Bushing", "8.60", 420, "Göta Bearings"),
        ("Worm Wheel", "58.90", 28, "Torino Castings"),
        ("Thrust Washer", "3.75", 510, "Göta Bearings"),
        ("Propeller Hub", "167.00", 8, "Torino Castings"),
    ),
    "Cast Iron": (
        ("Gear Case", "94.00", 20, "Torino Castings"),
        ("Machine Bed", "480.00", 4, "Torino Castings"),
        ("Flywheel", "112.00", 14, "Torino Castings"),
        ("Stove Door", "61.50", 25, None),
        ("Fire Grate", "29.90", 38, None),
        ("Bearing Block", "17.20", 130, "Göta Bearings"),
    ),
    "Nylon": (
        ("Cable Tie", "0.05", 30000, "Brabant Electronics"),
        ("Idler Roller", "13.40", 160, "Göta Bearings"),
        ("Slide Pad", "2.20", 640, None),
        ("Cable Gland", "1.10", 950, "Brabant Electronics"),
    ),
    "Polycarbonate": (
        ("Lamp Lens", "16.30", 85, "Brabant Electronics"),
        ("Safety Guard", "39.00", 42, None),
        ("Control Panel Cover", "11.60", 70, "Brabant Electronics"),
        ("Inspection Window", "22.75", 36, None),
    ),
    "Carbon Fiber": (
        ("Rotor Blade", "74.00", 44, "Rhône Composites"),
        ("Landing Skid", "36.50", 50, "Rhône Composites"),
        ("Fork Blade", "118.00", 26, "Rhône Composites"),
        ("Seat Post", "92.00", 31, "Rhône Composites"),
    ),
    "Rubber": (
        ("O-Ring 20 mm", "0.12", 8800, "Göta Bearings"),
        ("Conveyor Belt", "210.00", 9, "Rhône Composites"),
        ("Vibration Damper", "3.95", 460, "Göta Bearings"),
        ("Tyre 28 inch", "26.00", 80, "Hallam Forge"),
        ("Door Seal", "4.25", 220, None),
    ),
}

_PROJECTS = {  # name, status, confidential: quantities by part
    ("Atlas Conveyor", "active", False): {
        "Conveyor Belt": 2, "Idler Roller": 24, "Drive Shaft": 2, "Roller Chain": 2,
        "Chain Sprocket": 4, "Bearing Block": 8, "Base Plate": 6, "Hex Bolt M8": 160,
        "Hex Nut M8": 160, "Safety Guard": 4,
    },
    ("Beacon Light Tower", "planned", False): {
        "Mast Section": 5, "Lamp Lens": 8, "Busbar": 3, "Cable Gland": 12, "Ground Strap": 2,
        "Hex Bolt M8": 40, "Hex Nut M8": 40, "Cable Tie": 90,
    },
    ("Cirrus Drone", "active", False): {
        "Rotor Blade": 8, "Motor Mount": 4, "Camera Housing": 1, "Landing Skid": 2,
        "Battery Tray": 1, "Stator Winding": 4, "Vibration Damper": 8, "Threaded Insert": 32,
    },
    ("Delta Gearbox", "completed", False): {
        "Gear Case": 1, "Spur Gear": 4, "Helical Gear": 6, "Worm Wheel": 1, "Drive Shaft": 3,
        "Ball Bearing 6204": 8, "Roller Bearing": 4, "Thrust Washer": 6, "O-Ring 20 mm": 10,
    },
    ("Ember Stove", "active", False): {
        "Stove Door": 1, "Fire Grate": 1, "Gas Valve": 2, "Burner Nozzle": 6, "Door Hinge": 2,
        "Door Seal": 1, "Inspection Window": 1, "Pressure Gauge": 1,
    },
    ("Falcon Racing Bike", "active", False): {
        "Frame Tube": 4, "Wheel Rim": 2, "Fork Blade": 2, "Seat Post": 1, "Pedal Axle": 2,
        "Tyre 28 inch": 2, "Brake Disc": 2, "Roller Chain": 1, "Chain Sprocket": 2,
        "Ball Bearing 6204": 6,
    },
    ("Granite Press", "paused", False): {
        "Machine Bed": 1, "Flywheel": 1, "Compression Spring": 12, "Sleeve Bushing": 8,
        "Base Plate": 2, "Pressure Gauge": 2, "Hex Bolt M8": 64, "Flat Washer M8": 64,
    },
    ("Nightjar", "active", True): {
        "Heat Sink": 12, "Camera Housing": 3, "Hull Fitting": 6, "Sensor Probe": 9,
        "Propeller Hub": 1, "Stator Winding": 2, "O-Ring 20 mm": 44,
    },
}  # fmt: skip

_PAYROLL = {"Ines Moreau": "61200.00", "Karl Lindqvist": "58400.00", "Mei Tanaka": "73900.00"}


async def prepare(connection: AsyncConnection) -> None:
    """Create the tables and load the rows, in the transaction of ``connection``."""
    await connection.run_sync(ManufacturingTable.metadata.create_all)
    for model, rows in _rows().items():
        await connection.execute(sa.insert(model), rows)


_Rows = list[dict[str, object]]


def _rows() -> dict[type[ManufacturingTable], _Rows]:
    """Turn names into numbers; parents come before what needs them.

    A fresh database numbers rows from 1 in the order they come, which is the order above.
    """
    materials = {name: number for number, name in enumerate(_MATERIALS, 1)}
    suppliers = {name: number for number, name in enumerate(_SUPPLIERS, 1)}
    catalogue = [(material, *part) for material, parts in _PARTS.items() for part in parts]
    parts = {name: number for number, (_, name, *_) in enumerate(catalogue, 1)}
    return {
        Material: [
            {
                "name": name,
                "density": Decimal(density),
                "purchase_price": Decimal(price),
            }
            for name, (density, price) in _MATERIALS.items()
        ],
        Supplier: [
            {
                "name": name,
                "city": city,
                "bank_account": f"XX00 0000 0000 {number:04}",
            }
            for number, (name, city) in enumerate(_SUPPLIERS.items(), 1)
        ],
        Part: [
            {
                "name": name,
                "price": Decimal(price),
                "stock": stock,
                "material_id": materials[material],
                "supplier_id": None if supplier is None else suppliers[supplier],
            }
            for material, name, price, stock, supplier in catalogue
        ],
        Project: [
            {"name": name, "status": status, "confidential": confidential}
            for name, status, confidential in _PROJECTS
        ],
        ProjectPart: [
            {"project_id": number, "part_id": parts[name], "quantity": quantity}
            for number, quantities in enumerate(_PROJECTS.values(), 1)
            for name, quantity in quantities.items()
        ],
        Payroll: [
            {"person": person, "salary": Decimal(salary)} for person, salary in _PAYROLL.items()
        ],
    }


def _open_projects(actor: Actor) -> dict[str, bool]:
    """Show confidential projects to signed-in people only."""
    return {} if actor.is_signed_in else {"confidential": False}


def _open_project_parts(actor: Actor) -> dict[str, bool]:
    """Show what a project uses to those who may see the project."""
    return {} if actor.is_signed_in else {"project__confidential": False}


managers = Managers(prepare=prepare)
managers.expose(
    Material, hide=("purchase_price",), use_when="what parts are made of, and how dense it is"
)
managers.expose(
    Supplier, hide=("bank_account",), aliases=("vendor",), use_when="who delivers parts, and where"
)
managers.expose(
    Part, aliases=("component",), use_when="designed or purchased parts, their price and stock"
)
managers.expose(
    Project, visible=_open_projects, use_when="projects, their status and the parts they use"
)
managers.expose(
    ProjectPart,
    visible=_open_project_parts,
    aliases=("bill of materials",),
    use_when="how many pieces of a part a project uses",
)
