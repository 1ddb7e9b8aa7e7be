"""Every error of the package, in one tree; each carries its data and says what to do next.

SolidObjectsError
├── the caller acts
│   ├── Rejected, Unauthorized, UnknownActorType, UnknownOperation, InvalidActorId
│   ├── InvalidPayload ── InvalidArguments, PayloadTooLarge
│   ├── MailboxFull, IdempotencyConflict
│   ├── CallTimeout, CallEnqueueTimeout, CallInsideTransaction, CallUnresolved
│   ├── TooManyObservers
│   └── MessageFailed, MessagePruned
├── the author of an actor acts
│   ├── InvalidActor, InvalidEffect, InvalidComponent, StateMigrationError, ActorCallCycle, StagingUnavailable
│   └── NonRetryableError ── ApplicationWriteForbidden, QueryMutatedState, InvalidRejectionCode,
│                            CommitActionUnavailable, UnknownEffect
├── the operator acts
│   ├── InvalidSettings, UnsupportedDatabase, SchemaMissing, InvalidSchema
│   ├── NotInitialized, UnknownDeadLetter, UnknownInstance, UnknownReminder, UnknownOutboxRow, UnknownRedrive
│   └── ReminderCompleted, ActUnresolved
└── inside the runtime
    ├── LostActivation ── ActorDestroyed (this one does reach callers)
    └── DatabaseDeadlineExceeded, CommitUnknown
"""

from __future__ import annotations

from flask_solid_objects.errors.author import ActorCallCycle as ActorCallCycle
from flask_solid_objects.errors.author import ApplicationWriteForbidden as ApplicationWriteForbidden
from flask_solid_objects.errors.author import CommitActionUnavailable as CommitActionUnavailable
from flask_solid_objects.errors.author import InvalidActor as InvalidActor
from flask_solid_objects.errors.author import InvalidActorId as InvalidActorId
from flask_solid_objects.errors.author import InvalidComponent as InvalidComponent
from flask_solid_objects.errors.author import InvalidEffect as InvalidEffect
from flask_solid_objects.errors.author import InvalidRejectionCode as InvalidRejectionCode
from flask_solid_objects.errors.author import NonRetryableError as NonRetryableError
from flask_solid_objects.errors.author import QueryMutatedState as QueryMutatedState
from flask_solid_objects.errors.author import StagingUnavailable as StagingUnavailable
from flask_solid_objects.errors.author import StateMigrationError as StateMigrationError
from flask_solid_objects.errors.author import UnknownEffect as UnknownEffect
from flask_solid_objects.errors.author import UnknownReminder as UnknownReminder
from flask_solid_objects.errors.caller import CallEnqueueTimeout as CallEnqueueTimeout
from flask_solid_objects.errors.caller import CallInsideTransaction as CallInsideTransaction
from flask_solid_objects.errors.caller import CallTimeout as CallTimeout
from flask_solid_objects.errors.caller import CallUnresolved as CallUnresolved
from flask_solid_objects.errors.caller import IdempotencyConflict as IdempotencyConflict
from flask_solid_objects.errors.caller import InvalidArguments as InvalidArguments
from flask_solid_objects.errors.caller import InvalidPayload as InvalidPayload
from flask_solid_objects.errors.caller import MailboxFull as MailboxFull
from flask_solid_objects.errors.caller import MessageFailed as MessageFailed
from flask_solid_objects.errors.caller import MessagePruned as MessagePruned
from flask_solid_objects.errors.caller import PayloadTooLarge as PayloadTooLarge
from flask_solid_objects.errors.caller import Rejected as Rejected
from flask_solid_objects.errors.caller import TooManyObservers as TooManyObservers
from flask_solid_objects.errors.caller import Unauthorized as Unauthorized
from flask_solid_objects.errors.caller import UnknownActorType as UnknownActorType
from flask_solid_objects.errors.caller import UnknownOperation as UnknownOperation
from flask_solid_objects.errors.internal import ActorDestroyed as ActorDestroyed
from flask_solid_objects.errors.internal import CommitUnknown as CommitUnknown
from flask_solid_objects.errors.internal import DatabaseDeadlineExceeded as DatabaseDeadlineExceeded
from flask_solid_objects.errors.internal import LostActivation as LostActivation
from flask_solid_objects.errors.operator import ActUnresolved as ActUnresolved
from flask_solid_objects.errors.operator import InvalidSchema as InvalidSchema
from flask_solid_objects.errors.operator import InvalidSettings as InvalidSettings
from flask_solid_objects.errors.operator import NotInitialized as NotInitialized
from flask_solid_objects.errors.operator import ReminderCompleted as ReminderCompleted
from flask_solid_objects.errors.operator import SchemaMissing as SchemaMissing
from flask_solid_objects.errors.operator import UnknownDeadLetter as UnknownDeadLetter
from flask_solid_objects.errors.operator import UnknownInstance as UnknownInstance
from flask_solid_objects.errors.operator import UnknownOutboxRow as UnknownOutboxRow
from flask_solid_objects.errors.operator import UnknownRedrive as UnknownRedrive
from flask_solid_objects.errors.operator import UnsupportedDatabase as UnsupportedDatabase
from flask_solid_objects.errors.root import SolidObjectsError as SolidObjectsError
