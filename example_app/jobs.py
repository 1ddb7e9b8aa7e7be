"""Jobs of customers: those of one customer run strictly in order, those of different customers side by side.

Each customer is one actor with a queue. A job is done by an effect; the next one begins when it has ended, so that a
failing job holds up its own customer and nobody else. A reminder by cron sums up every night.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from flask import Blueprint, abort, current_app, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from example_app.actors import solid
from example_app.shop import check_form
from flask_solid_objects import Actor, EffectContext, Rejected, attribute, operation

KEPT = 50
jobs = Blueprint("jobs", __name__, template_folder="templates")
jobs.before_request(check_form)


@dataclass
class Job:
    """One piece of work, and how it stands: waiting, running, done or failed."""

    number: int
    title: str
    status: str = "waiting"
    outcome: str = ""


@solid.effect(max_attempts=3)
def write_invoice(context: EffectContext, *, customer: str, title: str) -> str:
    """Stands for slow work outside; writing the same file again is harmless."""
    if "fail" in title:
        raise RuntimeError("The printer is out of paper.")
    folder = Path(current_app.instance_path) / "invoices"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{context.id}.txt"
    path.write_text(f"{customer}: {title}\n")
    return path.name


@solid.actor
class Customer(Actor):
    """The queue of one customer."""

    queue: list[Job] = attribute(default_factory=list, observable=True)
    numbers: int = 0
    nights: list[str] = attribute(default_factory=list, observable=True)

    @operation
    def add(self, title: str) -> int:
        """Put a job at the end of the queue, and begin when nothing runs."""
        if not title.strip():
            raise Rejected("empty", "Give the job a title.")
        self.numbers += 1
        self.queue = [*self.queue, Job(self.numbers, title.strip()[:100])][-KEPT:]
        if self.sum_up.reminder() is None:
            self.sum_up.using(cron="0 2 * * *", timezone="Europe/Berlin").schedule()
        self._begin()
        return self.numbers

    @operation
    def done(self, result: str) -> None:
        self._end("done", result)

    @operation
    def failed(self, error: dict[str, Any]) -> None:
        self._end("failed", str(error.get("message")))

    @operation
    def sum_up(self) -> None:
        """Every night at two o'clock in Berlin."""
        counts = {status: sum(job.status == status for job in self.queue) for status in ("done", "failed", "waiting")}
        day: datetime = self.context.due_at or self.context.now
        line = ", ".join(f"{count} {status}" for status, count in counts.items())
        self.nights = [*self.nights, f"{day:%Y-%m-%d}: {line}"][-7:]

    def _begin(self) -> None:
        if any(job.status == "running" for job in self.queue):
            return
        for job in self.queue:
            if job.status == "waiting":
                job.status = "running"
                work = write_invoice.using(on_success=self.done, on_failure=self.failed)
                work.emit(customer=self.actor_id, title=job.title)
                return

    def _end(self, status: str, outcome: str) -> None:
        for job in self.queue:
            if job.status == "running":
                job.status, job.outcome = status, outcome
        self._begin()


@jobs.get("/customers/<customer>")
def show(customer: str) -> str:
    if not customer.isalnum() or len(customer) > 40:
        abort(404)
    return render_template("jobs/customer.html", customer_id=customer, customer=Customer.ref(customer))


@jobs.post("/customers/<customer>/jobs")
def add(customer: str) -> Response:
    Customer.ref(customer).add(title=request.form.get("title", ""))
    return redirect(url_for("jobs.show", customer=customer), code=303)
