"""Three managers with a handful of rows: small enough to know every right answer by heart.

Source: chat-contract.md 5.3.
"""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel

from schema import Managers


class ToyTable(SQLModel, registry=registry(metadata=sa.MetaData())):
    """Base of this demo's tables: names here do not meet those of other domains."""


class MaterialManager(ToyTable, table=True):
    """Materials used in manufacturing."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(description="Name of the material.")
    density: float = Field(description="Density in grams per cubic centimetre.")

    parts: list["PartManager"] = Relationship(
        back_populates="material",
        sa_relationship_kwargs={"info": {"description": "The parts made of this material."}},
    )


class ProjectPartLink(ToyTable, table=True):
    """Which part a project uses."""

    project_id: int = Field(foreign_key="projectmanager.id", primary_key=True)
    part_id: int = Field(foreign_key="partmanager.id", primary_key=True)


class PartManager(ToyTable, table=True):
    """Inventory parts catalog."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(description="Name of the part.")
    material_id: int = Field(foreign_key="materialmanager.id")

    material: MaterialManager = Relationship(
        back_populates="parts",
        sa_relationship_kwargs={"info": {"description": "The material the part is made of."}},
    )
    projects: list["ProjectManager"] = Relationship(
        back_populates="parts",
        link_model=ProjectPartLink,
        sa_relationship_kwargs={"info": {"description": "The projects that use the part."}},
    )


class ProjectManager(ToyTable, table=True):
    """Engineering projects."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(description="Name of the project.")

    parts: list[PartManager] = Relationship(
        back_populates="projects",
        link_model=ProjectPartLink,
        sa_relationship_kwargs={"info": {"description": "The parts the project uses."}},
    )


async def prepare(connection: AsyncConnection) -> None:
    """Create the tables and load the rows, in the transaction of ``connection``."""
    await connection.run_sync(ToyTable.metadata.create_all)
    await connection.execute(
        sa.insert(MaterialManager),
        [
            {"name": "Steel", "density": 7.8},
            {"name": "Aluminum", "density": 2.7},
            {"name": "Cobalt", "density": 8.9},
        ],
    )
    await connection.execute(
        sa.insert(PartManager),
        [
            {"name": "Bolt", "material_id": 1},
            {"name": "Bearing", "material_id": 2},
            {"name": "Gear", "material_id": 3},
        ],
    )
    await connection.execute(
        sa.insert(ProjectManager),
        [{"name": "Apollo"}, {"name": "Mercury"}],
    )
    await connection.execute(
        sa.insert(ProjectPartLink),
        [{"project_id": 1, "part_id": 3}, {"project_id": 2, "part_id": 2}],
    )


managers = Managers(prepare=prepare)
managers.expose(MaterialManager, use_when="what parts are made of, and how dense it is")
managers.expose(PartManager, hide=("material_id",), use_when="single parts and their material")
managers.expose(ProjectManager, use_when="projects and the parts they use")
