"""What docs/guide-jobs.md says, played: order within a customer, failures that block nobody else, the nightly line."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import pytest

from example_app.actors import solid
from example_app.jobs import Customer, write_invoice
from tests.example.conftest import Example

PAGE = "/customers/ada"
DAY = timedelta(days=1)


def test_jobs_run_one_after_the_other(example: Example) -> None:
    """The next job begins when the last one has ended, and not before."""
    example.add_jobs("ada", "one", "two", "three")
    seen = [example.jobs("ada")]
    for _ in range(3):
        example.effects.run_once()
        example.work()
        seen.append(example.jobs("ada"))

    assert seen == [
        ["running", "waiting", "waiting"],
        ["done", "running", "waiting"],
        ["done", "done", "running"],
        ["done", "done", "done"],
    ]
    assert example.invoices == ["ada, job 1: one", "ada, job 2: two", "ada, job 3: three"]


def test_customers_run_side_by_side(example: Example) -> None:
    """Each customer has one job running, whatever waits behind it."""
    example.add_jobs("ada", "one", "two")
    example.add_jobs("bob", "one")

    assert (example.jobs("ada"), example.jobs("bob")) == (["running", "waiting"], ["running"])


def test_a_failing_job_holds_up_its_own_customer_only(example: Example) -> None:
    """While it waits for another try, the next job of its customer waits too, and other customers go on."""
    example.pause = 3600.0
    example.add_jobs("ada", "fail please", "later")
    example.add_jobs("bob", "one", "two")
    example.settle()

    assert example.jobs("bob") == ["done", "done"]
    assert example.jobs("ada") == ["running", "waiting"]


def test_a_failed_job_lets_the_next_one_begin(example: Example) -> None:
    """After three tries the job has failed, for a reason that the page shows, and the next one runs."""
    example.add_jobs("ada", "fail please", "later")
    example.settle()

    assert example.jobs("ada") == ["failed", "done"]
    assert "The printer is out of paper." in example.visit(PAGE).page


def test_a_failed_job_may_be_repeated(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator repeats it when the cause is mended: it ends well, beside the job that runs by then."""
    example.add_jobs("ada", "fail please")
    example.settle()
    monkeypatch.setattr(write_invoice, "function", lambda context, **_: "at last")
    repeated = example.repeat_dead_effects()
    example.add_jobs("ada", "later")
    before = example.jobs("ada")
    example.settle()

    assert repeated == 1
    assert (before, example.jobs("ada")) == (["failed", "running"], ["done", "done"])


def test_a_job_may_work_at_the_second_try(example: Example) -> None:
    """What fails once is tried again, and nobody has to do anything."""
    example.add_jobs("ada", "jam once")
    example.settle()

    assert example.jobs("ada") == ["done"]


def test_a_process_may_die_after_its_work(example: Example) -> None:
    """The job is done again under the same id, which writes the same file again, and ends once."""
    example.add_jobs("ada", "one", "two")
    with example.app.app_context(), solid.testing.fail_at("effect.handled", SystemError("killed")):
        solid.testing.drain()
    example.settle()

    assert example.jobs("ada") == ["done", "done"]
    assert example.invoices == ["ada, job 1: one", "ada, job 2: two"]


# -- the page ----------------------------------------------------------------------------------


def test_a_page_adds_a_job(example: Example) -> None:
    """The form adds a job, and the page shows how it stands."""
    ada = example.visit(PAGE)
    ada.press("Add a job", title="  Invoice   for July ")

    assert "1. Invoice for July" in ada.page
    assert "running" in ada.page


def test_a_form_sent_twice_adds_one_job(example: Example) -> None:
    """A double press is one job; the same title from a new page is another one."""
    ada = example.visit(PAGE)
    form = ada.press("Add a job", title="July")
    ada.send(form)
    once = example.jobs("ada")
    ada.press("Add a job", title="July")

    assert (len(once), len(example.jobs("ada"))) == (1, 2)


def test_a_job_needs_a_title(example: Example) -> None:
    """Blanks are refused with a word on the page."""
    ada = example.visit(PAGE)
    ada.press("Add a job", title="   ")

    assert "Give the job a title." in ada.page
    assert example.jobs("ada") == []


@pytest.mark.parametrize("path", ["/customers/a-b", f"/customers/{'a' * 41}"])
def test_a_customer_has_a_plain_name(example: Example, path: str) -> None:
    """Other names have no page and no queue."""
    assert example.app.test_client().get(path).status_code == 404


def test_a_long_queue_refuses_more(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue has an end, and nothing that is open is forgotten."""
    monkeypatch.setattr(sys.modules["example_app.jobs"], "MOST_OPEN", 3)
    monkeypatch.setattr(sys.modules["example_app.jobs"], "KEPT", 1)
    ada = example.visit(PAGE)
    for title in ("one", "two", "three", "one too many"):
        ada.press("Add a job", title=title)

    assert "The queue is full." in ada.page
    assert example.jobs("ada") == ["running", "waiting", "waiting"]


def test_old_jobs_are_forgotten(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state stays small: of the jobs that have ended, the newest are kept."""
    monkeypatch.setattr(sys.modules["example_app.jobs"], "KEPT", 2)
    example.add_jobs("ada", "one", "two", "three", "four")
    example.settle()

    assert [job.title for job in example.customer("ada").queue] == ["three", "four"]


# -- every night -------------------------------------------------------------------------------


def test_every_night_is_summed_up(example: Example) -> None:
    """The reminder rings once a night, with what has ended since the night before."""
    example.add_jobs("ada", "one", "fail please", "three")
    example.settle()
    for days in (1, 2):
        example.ring(days * DAY)
        example.work()
    nights = [night.partition(": ")[2] for night in example.customer("ada").nights]

    assert nights == ["2 done, 1 failed, 0 to do", "0 done, 0 failed, 0 to do"]


def test_missed_nights_are_one_line(example: Example) -> None:
    """When nothing ran for days, there is one line, not one for each night."""
    example.add_jobs("ada", "one")
    rung = example.ring(5 * DAY)
    example.work()

    assert (rung, len(example.customer("ada").nights)) == (1, 1)


def test_many_jobs_have_one_reminder(example: Example) -> None:
    """The reminder is armed with the first job, by the clock of Berlin, and later jobs leave it alone."""
    example.add_jobs("ada", "one", "two", "three")
    listed = example.app.test_cli_runner().invoke(args=["solid", "reminders", "list", "--json"], catch_exceptions=False)

    assert [(each["operation"], each["cron"], each["timezone"]) for each in json.loads(listed.output)] == [
        ("sum_up", "0 2 * * *", "Europe/Berlin"),
    ]


def test_a_job_does_not_cancel_the_night(example: Example) -> None:
    """A job that comes as the reminder rings leaves that night's line alone."""
    example.add_jobs("ada", "one")
    with example.app.app_context():
        Customer.ref("ada").add.send(title="two")
    example.ring(DAY)
    example.work()

    assert len(example.customer("ada").nights) == 1


def test_progress_is_a_snapshot(example: Example) -> None:
    """Anybody may read how far a queue is, without a turn of its actor."""
    example.add_jobs("ada", "one")
    with example.app.app_context():
        [job] = Customer.ref("ada").snapshot().queue

    assert (job.number, job.title, job.status) == (1, "one", "running")
