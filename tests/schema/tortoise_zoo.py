"""Cages and beasts as Tortoise models: the tables of ``test_oracle.py``."""

from tortoise import fields
from tortoise.models import Model

APPS = {"zoo": {"models": [__name__]}}


class Cage(Model):
    id = fields.IntField(primary_key=True)
    label = fields.TextField(null=True)
    size = fields.IntField(default=0)

    beasts: fields.ReverseRelation["Beast"]


class Beast(Model):
    id = fields.IntField(primary_key=True)
    name = fields.TextField(null=True)
    legs = fields.IntField(null=True)
    cage: fields.ForeignKeyNullableRelation[Cage] = fields.ForeignKeyField(
        "zoo.Cage", related_name="beasts", null=True, source_field="cage_id"
    )
