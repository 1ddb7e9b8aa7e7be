"""Durable virtual actors for Flask, in the SQL database that the app already has."""

from flask_solid_objects.actors.actor import Actor as Actor
from flask_solid_objects.actors.attribute import attribute as attribute
from flask_solid_objects.actors.message import Message as Message
from flask_solid_objects.actors.observable import observable as observable
from flask_solid_objects.actors.observable import payload as payload
from flask_solid_objects.actors.operation import operation as operation
from flask_solid_objects.actors.operation import query as query
from flask_solid_objects.actors.state import state_migration as state_migration
from flask_solid_objects.extension import SolidObjects as SolidObjects
