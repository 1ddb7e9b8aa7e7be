"""Reminders, redrives and dead processes."""

from __future__ import annotations

from typing import Any

from tests.web.dashboard.site import PREFIX, Browser, DashboardSite

_STATUS = "SELECT status FROM solid_objects_reminders WHERE id = :id"


def act(browser: Browser, path: str, **form: str) -> Any:
    return browser.client.post(PREFIX + path, data={"solid_token": browser.token(), **form})


def test_reminders(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """Pause, resume, ring and cancel do what they say, and say when it was so already."""
    one = ids["reminder"]
    steps = [
        ("pause", "rings no more until", "paused"),
        ("pause", "was so already", "paused"),
        ("resume", "rings again", "scheduled"),
        ("resume", "was so already", "scheduled"),
    ]
    for verb, text, status in steps:
        page = browser.after(act(browser, f"/reminders/{one}/{verb}"))
        assert (verb, text in page.text, site.rows(_STATUS, id=one)) == (verb, True, [(status,)])
    rung = browser.after(act(browser, f"/reminders/{one}/run"))
    assert ("rings now, as message" in rung.text, f"reminder {one}" in rung.text) == (True, True)
    assert site.rows(_STATUS, id=one) == [("completed",)]
    assert act(browser, f"/reminders/{one}/run").status_code == 409
    assert act(browser, f"/reminders/{one}/pause").status_code == 409
    assert "is cancelled" in browser.after(act(browser, f"/reminders/{one}/cancel")).text
    assert act(browser, f"/reminders/{one}/cancel").status_code == 404

    acts = ["pause", "pause", "resume", "resume", "run", "cancel"]
    assert site.acts() == [(f"reminder.{verb}", "reminder", str(one), "olga") for verb in acts]


def test_reminder_buttons(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """A page offers what the status allows; the buttons of the page are those of the acts."""
    assert browser.open("/reminders?status=scheduled").buttons == ["Pause", "Ring now", "Cancel"] * 2
    browser.after(browser.press(browser.open("/reminders"), "Pause"))
    assert sorted(browser.open("/reminders?status=paused").buttons) == ["Cancel", "Resume", "Ring now"]
    browser.after(browser.press(browser.open("/reminders?status=paused"), "Ring now"))
    assert "rung by a reminder" in browser.open("/actor?type=Account&id=a").text


def test_redrives(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """A redrive is started once however often it is pressed, shows how far it is, and can be cancelled."""
    form = browser.open("/redrives").form_of("Start")
    for _ in range(2):
        page = browser.after(browser.send(form, kind="effect", type="", limit=""))
        assert "is running; 1 are left" in page.text
    assert site.rows("SELECT status FROM solid_objects_redrives") == [("running",)]
    for _ in range(2):
        assert "is cancelled" in browser.after(browser.press(page, "Cancel")).text
    assert site.rows("SELECT status FROM solid_objects_redrives") == [("cancelled",)]
    assert [done[0] for done in site.acts()] == ["redrive.start", "redrive.cancel"]
    assert act(browser, "/redrives/nothing/cancel").status_code == 404


def test_wrong_redrives(site: DashboardSite, browser: Browser) -> None:
    """What a redrive cannot be is said on the page, and nothing starts."""
    for form in ({"kind": ""}, {"kind": "people"}, {"kind": "effect", "limit": "0"}):
        page = browser.after(act(browser, "/redrives/start", **form))
        assert [given["class"] for tag, given in page.elements if "notice" in given.get("class", "")] == [
            "notice problem"
        ]
    for limit in ("-1", "many", "1e3", "9" * 30):
        assert act(browser, "/redrives/start", kind="effect", limit=limit).status_code in (303, 400)
    assert (site.rows("SELECT count(*) FROM solid_objects_redrives"), site.acts()) == ([(0,)], [])


def test_clean_up(site: DashboardSite, browser: Browser) -> None:
    """What a silent process held is freed at once, and that is written down; a second time there is nothing."""
    worker = site.solid.runtime.worker()
    site.Account.ref("a").pay.send(cents=1)
    worker.run_once()
    assert "Free what dead processes hold" not in browser.open("/processes").buttons
    site.execute("UPDATE solid_objects_processes SET last_heartbeat_at = '2001-01-01 00:00:00'")
    page = browser.open("/processes")
    assert "silent" in page.text
    done = browser.after(browser.press(page, "Free what dead processes hold"))
    assert "dead processes held is free" in done.text
    assert "Free what dead processes hold" not in done.buttons
    browser.after(browser.press(page, "Free what dead processes hold"))
    worker._leave()

    assert [(done[0], done[3]) for done in site.acts()] == [("process.cleanup", "olga")] * 2
