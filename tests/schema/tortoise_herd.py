"""The farms and animals of ``herd.py`` as Tortoise models."""

from tortoise import fields
from tortoise.models import Model

from tests.schema.herd import Diet

APPS = {"herd": {"models": [__name__]}}


class Farm(Model):
    id = fields.IntField(primary_key=True)
    label = fields.CharField(50)
    size = fields.IntField(null=True)

    animals: fields.ReverseRelation["Animal"]


class Animal(Model):
    id = fields.IntField(primary_key=True)
    name = fields.TextField(null=True)
    legs = fields.IntField(null=True)
    tag = fields.BigIntField(null=True)
    weight = fields.DecimalField(12, 3, null=True)
    ratio = fields.FloatField(null=True)
    is_tame = fields.BooleanField(null=True)
    diet = fields.CharEnumField(Diet, null=True)
    born = fields.DateField(null=True)
    seen_at = fields.DatetimeField(null=True)
    chip = fields.UUIDField(null=True)
    extra: fields.Field[object] = fields.JSONField(null=True)
    farm: fields.ForeignKeyNullableRelation[Farm] = fields.ForeignKeyField(
        "herd.Farm", related_name="animals", null=True
    )
