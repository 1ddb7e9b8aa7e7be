"""All store modules of one schema on one dialect, built once; each statement is compiled once, at its first use."""

from __future__ import annotations

from flask_solid_objects.settings import Settings
from flask_solid_objects.store.actor_pages import ActorPages
from flask_solid_objects.store.administration import Administration
from flask_solid_objects.store.admission import Admission
from flask_solid_objects.store.audit import Audit
from flask_solid_objects.store.belongings import Belongings
from flask_solid_objects.store.broadcasts import Broadcasts
from flask_solid_objects.store.candidates import Candidates
from flask_solid_objects.store.dead_letters import DeadLetters
from flask_solid_objects.store.deliveries import Deliveries
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.effects import Effects
from flask_solid_objects.store.heads import Heads
from flask_solid_objects.store.instances import Instances
from flask_solid_objects.store.leases import Leases
from flask_solid_objects.store.mailbox import Mailbox
from flask_solid_objects.store.mailbox_pages import MailboxPages
from flask_solid_objects.store.outbox_administration import OutboxAdministration
from flask_solid_objects.store.outbox_pages import OutboxPages
from flask_solid_objects.store.overview import Overviews
from flask_solid_objects.store.processes import Processes
from flask_solid_objects.store.reconciliation import Reconciliation
from flask_solid_objects.store.recoveries import Recoveries
from flask_solid_objects.store.redrives import Redrives
from flask_solid_objects.store.reminders import Reminders
from flask_solid_objects.store.resending import Resending
from flask_solid_objects.store.retention import Retention
from flask_solid_objects.store.revivals import LetterRevivals
from flask_solid_objects.store.samples import Samples
from flask_solid_objects.store.staged import StagedRows
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.timeline import Timeline
from flask_solid_objects.store.turns import Turns
from flask_solid_objects.store.views import Views
from flask_solid_objects.store.writable_cte import WritableCte


class Store:
    """The acts of the store by subject; each takes an open transaction and neither begins nor commits one."""

    def __init__(self, tables: Tables, dialect: Dialect, settings: Settings) -> None:
        single = WritableCte(tables, dialect) if dialect.has_writable_cte else None
        self.tables = tables
        self.instances = Instances(tables, dialect)
        self.mailbox = Mailbox(tables, dialect)
        self.heads = Heads(tables, dialect)
        self.dead_letters = DeadLetters(tables, dialect)
        self.processes = Processes(tables, dialect)
        self.leases = Leases(tables, dialect, self.instances, self.mailbox, self.heads, self.dead_letters)
        self.candidates = Candidates(tables, dialect, self.instances)
        self.admission = Admission(
            self.instances, self.mailbox, self.leases, single, mailbox_limit=settings.max_mailbox_length
        )
        self.resending = Resending(self.mailbox, self.admission, self.dead_letters, max_attempts=settings.max_attempts)
        self.reminders = Reminders(tables, dialect)
        self.effects = Effects(tables, dialect)
        self.recoveries = Recoveries(tables, dialect)
        self.deliveries = Deliveries(tables, dialect)
        self.broadcasts = Broadcasts(tables, dialect)
        self.staged = StagedRows(tables, dialect, self.reminders)
        self.turns = Turns(
            tables,
            dialect,
            self.instances,
            self.mailbox,
            self.heads,
            self.leases,
            self.dead_letters,
            single,
            self.staged,
        )
        self.views = Views(tables, dialect)
        self.reconciliation = Reconciliation(tables, dialect)
        self.administration = Administration(
            tables, dialect, self.instances, self.mailbox, self.heads, self.leases, self.dead_letters
        )
        self.outbox_administration = OutboxAdministration(tables, dialect, self.effects, self.broadcasts)
        self.actor_pages = ActorPages(tables, dialect, self.administration)
        self.mailbox_pages = MailboxPages(tables, dialect)
        self.timeline = Timeline(tables, dialect)
        self.belongings = Belongings(tables, dialect, self.effects, self.broadcasts, self.reminders, self.dead_letters)
        self.outbox_pages = OutboxPages(
            tables, dialect, self.effects, self.broadcasts, self.reminders, self.dead_letters
        )
        self.overviews = Overviews(tables, dialect)
        self.audit = Audit(tables, dialect)
        letters = LetterRevivals(tables, dialect, self.instances, self.dead_letters, self.resending)
        self.redrives = Redrives(tables, dialect, letters)
        self.retention = Retention(tables, dialect)
        self.samples = Samples(tables, dialect)
