"""Jobs of customers: those of one customer run strictly in order, those of different customers side by side.

Each customer is one actor with a queue. A job is done by an effect; the next one begins when it has ended, so that a
failing job holds up its own customer and nobody else. A reminder by cron sums up every night.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from flask import Blueprint, abort, current_app, flash, redirect, render_template, url_for
from werkzeug.wrappers import Response

from example_app.actors import solid
from example_app.shop import check_form, field, form_key
from flask_solid_objects import Actor, EffectContext, EffectError, Rejected, attribute, operation

MOST_OPEN = 100
KEPT = 20
BERLIN = "Europe/Berlin"

jobs = Blueprint("jobs", __name__, template_folder="templates")
jobs.before_request(check_form)


@dataclass
class Job:
    """One piece of work, and how it stands: waiting, running, done or failed."""

    number: int
    title: str
    status: str = "waiting"
    outcome: str = ""
    effect_id: str = ""

    @property
    def is_open(self) -> bool:
        return self.status in ("waiting", "running")


@solid.effect(max_attempts=3)
def write_invoice(context: EffectContext, *, customer: str, number: int, title: str) -> str:
    """Stands for slow work outside; doing it again under the same id writes the same file again."""
    if "fail" in title:
        raise RuntimeError("The printer is out of paper.")
    if "jam" in title and context.attempt == 1:
        raise RuntimeError("The paper has jammed.")
    folder = Path(current_app.instance_path) / "invoices"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{customer}-{number}-{context.id[:8]}.txt"
    path.write_text(f"{customer}, job {number}: {title}\n")
    return path.name


@solid.actor
class Customer(Actor):
    """The queue of one customer."""

    queue: list[Job] = attribute(default_factory=list, observable=True)
    nights: list[str] = attribute(default_factory=list, observable=True)
    numbers: int = 0
    ended: dict[str, int] = attribute(default_factory=dict)

    @operation
    def add(self, title: str) -> int:
        """Put a job at the end of the queue, and begin when nothing runs."""
        title = " ".join(title.split())[:100]
        if not title:
            raise Rejected("empty", "Give the job a title.")
        if sum(job.is_open for job in self.queue) >= MOST_OPEN:
            raise Rejected("full", "The queue is full. Wait until some jobs have ended.")
        self.numbers += 1
        self.queue.append(Job(self.numbers, title))
        if self.sum_up.reminder() is None:
            self.sum_up.using(cron="0 2 * * *", timezone=BERLIN).schedule()
        self._begin()
        return self.numbers

    @operation
    def done(self, effect_id: str, result: str) -> None:
        self._end(effect_id, "done", result)

    @operation
    def failed(self, effect_id: str, error: EffectError) -> None:
        self._end(effect_id, "failed", error["message"])

    @operation
    def sum_up(self) -> None:
        """At two o'clock at night in Berlin: a line for what has ended since the last one."""
        night = (self.context.due_at or self.context.now).astimezone(ZoneInfo(BERLIN))
        done, failed = self.ended.get("done", 0), self.ended.get("failed", 0)
        open_jobs = sum(job.is_open for job in self.queue)
        line = f"{night:%Y-%m-%d}: {done} done, {failed} failed, {open_jobs} to do"
        self.nights = [*self.nights, line][-7:]
        self.ended = {}

    def _begin(self) -> None:
        """Have the first open job done, unless it is running already."""
        job = next((job for job in self.queue if job.is_open), None)
        if job is not None and job.status == "waiting":
            work = write_invoice.using(on_success=self.done, on_failure=self.failed)
            job.effect_id = work.emit(customer=self.actor_id, number=job.number, title=job.title)
            job.status = "running"

    def _end(self, effect_id: str, status: str, outcome: str) -> None:
        """Write down how a job has ended, and begin the next one."""
        for job in self.queue:
            # A failed job may end once more, well, after an operator has repeated its effect.
            if job.effect_id == effect_id:
                job.status, job.outcome = status, outcome
        self.ended[status] = self.ended.get(status, 0) + 1
        self._forget_old()
        self._begin()

    def _forget_old(self) -> None:
        over = [job.number for job in self.queue if not job.is_open][:-KEPT]
        self.queue = [job for job in self.queue if job.number not in over]


@jobs.get("/customers/<customer_id>")
def show(customer_id: str) -> str:
    return render_template("jobs/customer.html", customer_id=customer_id, customer=_customer(customer_id))


@jobs.post("/customers/<customer_id>/jobs")
def add(customer_id: str) -> Response:
    """Add a job; a form that is sent twice adds it once."""
    add = _customer(customer_id).add.using(idempotency_key=form_key("add"))
    try:
        add(title=field("title", 500))
    except Rejected as rejection:
        flash(rejection.message, "problem")
    return redirect(url_for("jobs.show", customer_id=customer_id), code=303)


def _customer(customer_id: str) -> Customer:
    if not customer_id.isalnum() or len(customer_id) > 40:
        abort(404)
    return Customer.ref(customer_id)
