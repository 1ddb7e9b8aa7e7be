"""Durable virtual actors for Flask, in the SQL database that the app already has."""

from flask_solid_objects.actors.actor import Actor as Actor
from flask_solid_objects.actors.attribute import attribute as attribute
from flask_solid_objects.actors.message import Message as Message
from flask_solid_objects.actors.observable import observable as observable
from flask_solid_objects.actors.observable import payload as payload
from flask_solid_objects.actors.operation import operation as operation
from flask_solid_objects.actors.operation import query as query
from flask_solid_objects.actors.parameter import parameter as parameter
from flask_solid_objects.actors.state import state_migration as state_migration
from flask_solid_objects.errors import ActorCallCycle as ActorCallCycle
from flask_solid_objects.errors import ActorDestroyed as ActorDestroyed
from flask_solid_objects.errors import ActUnresolved as ActUnresolved
from flask_solid_objects.errors import ApplicationWriteForbidden as ApplicationWriteForbidden
from flask_solid_objects.errors import CallEnqueueTimeout as CallEnqueueTimeout
from flask_solid_objects.errors import CallInsideTransaction as CallInsideTransaction
from flask_solid_objects.errors import CallTimeout as CallTimeout
from flask_solid_objects.errors import CallUnresolved as CallUnresolved
from flask_solid_objects.errors import CommitActionUnavailable as CommitActionUnavailable
from flask_solid_objects.errors import IdempotencyConflict as IdempotencyConflict
from flask_solid_objects.errors import InvalidActor as InvalidActor
from flask_solid_objects.errors import InvalidActorId as InvalidActorId
from flask_solid_objects.errors import InvalidArguments as InvalidArguments
from flask_solid_objects.errors import InvalidComponent as InvalidComponent
from flask_solid_objects.errors import InvalidEffect as InvalidEffect
from flask_solid_objects.errors import InvalidPayload as InvalidPayload
from flask_solid_objects.errors import InvalidRejectionCode as InvalidRejectionCode
from flask_solid_objects.errors import InvalidSchema as InvalidSchema
from flask_solid_objects.errors import InvalidSettings as InvalidSettings
from flask_solid_objects.errors import MailboxFull as MailboxFull
from flask_solid_objects.errors import MessageFailed as MessageFailed
from flask_solid_objects.errors import MessagePruned as MessagePruned
from flask_solid_objects.errors import NonRetryableError as NonRetryableError
from flask_solid_objects.errors import NotInitialized as NotInitialized
from flask_solid_objects.errors import PayloadTooLarge as PayloadTooLarge
from flask_solid_objects.errors import QueryMutatedState as QueryMutatedState
from flask_solid_objects.errors import Rejected as Rejected
from flask_solid_objects.errors import ReminderCompleted as ReminderCompleted
from flask_solid_objects.errors import SchemaMissing as SchemaMissing
from flask_solid_objects.errors import SolidObjectsError as SolidObjectsError
from flask_solid_objects.errors import StagingUnavailable as StagingUnavailable
from flask_solid_objects.errors import StateMigrationError as StateMigrationError
from flask_solid_objects.errors import TooManyObservers as TooManyObservers
from flask_solid_objects.errors import Unauthorized as Unauthorized
from flask_solid_objects.errors import UnknownActorType as UnknownActorType
from flask_solid_objects.errors import UnknownDeadLetter as UnknownDeadLetter
from flask_solid_objects.errors import UnknownEffect as UnknownEffect
from flask_solid_objects.errors import UnknownInstance as UnknownInstance
from flask_solid_objects.errors import UnknownOperation as UnknownOperation
from flask_solid_objects.errors import UnknownOutboxRow as UnknownOutboxRow
from flask_solid_objects.errors import UnknownRedrive as UnknownRedrive
from flask_solid_objects.errors import UnknownReminder as UnknownReminder
from flask_solid_objects.errors import UnsupportedDatabase as UnsupportedDatabase
from flask_solid_objects.extension import SolidObjects as SolidObjects
from flask_solid_objects.telemetry.event import Event as Event
from flask_solid_objects.telemetry.logs import JsonFormatter as JsonFormatter
from flask_solid_objects.telemetry.observation import Observation as Observation
from flask_solid_objects.values import Access as Access
from flask_solid_objects.values import ActorDiagnostics as ActorDiagnostics
from flask_solid_objects.values import Broadcast as Broadcast
from flask_solid_objects.values import CommitContext as CommitContext
from flask_solid_objects.values import DiagnosticSample as DiagnosticSample
from flask_solid_objects.values import EffectContext as EffectContext
from flask_solid_objects.values import EffectError as EffectError
from flask_solid_objects.values import MessageContext as MessageContext
from flask_solid_objects.values import MessageStatus as MessageStatus
from flask_solid_objects.values import Outcome as Outcome
from flask_solid_objects.values import Reminder as Reminder

__all__ = [
    "Access",
    "ActUnresolved",
    "Actor",
    "ActorCallCycle",
    "ActorDestroyed",
    "ActorDiagnostics",
    "ApplicationWriteForbidden",
    "Broadcast",
    "CallEnqueueTimeout",
    "CallInsideTransaction",
    "CallTimeout",
    "CallUnresolved",
    "CommitActionUnavailable",
    "CommitContext",
    "DiagnosticSample",
    "EffectContext",
    "EffectError",
    "Event",
    "IdempotencyConflict",
    "InvalidActor",
    "InvalidActorId",
    "InvalidArguments",
    "InvalidComponent",
    "InvalidEffect",
    "InvalidPayload",
    "InvalidRejectionCode",
    "InvalidSchema",
    "InvalidSettings",
    "JsonFormatter",
    "MailboxFull",
    "Message",
    "MessageContext",
    "MessageFailed",
    "MessagePruned",
    "MessageStatus",
    "NonRetryableError",
    "NotInitialized",
    "Observation",
    "Outcome",
    "PayloadTooLarge",
    "QueryMutatedState",
    "Rejected",
    "Reminder",
    "ReminderCompleted",
    "SchemaMissing",
    "SolidObjects",
    "SolidObjectsError",
    "StagingUnavailable",
    "StateMigrationError",
    "TooManyObservers",
    "Unauthorized",
    "UnknownActorType",
    "UnknownDeadLetter",
    "UnknownEffect",
    "UnknownInstance",
    "UnknownOperation",
    "UnknownOutboxRow",
    "UnknownRedrive",
    "UnknownReminder",
    "UnsupportedDatabase",
    "attribute",
    "observable",
    "operation",
    "parameter",
    "payload",
    "query",
    "state_migration",
]
