"""What applications use to test their actors; reached as ``solid.testing``."""

from flask_solid_objects.testing.fail_points import FailPoint as FailPoint
from flask_solid_objects.testing.fail_points import Held as Held
from flask_solid_objects.testing.fakes import Emitted as Emitted
from flask_solid_objects.testing.fakes import FakeEffects as FakeEffects
from flask_solid_objects.testing.kit import Testing as Testing

__all__ = ["Emitted", "FailPoint", "FakeEffects", "Held", "Testing"]
