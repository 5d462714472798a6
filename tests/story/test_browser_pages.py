"""Pages of the site and of the administration are accessible, stable, fit a phone.

axe checks each page in light and dark colors; the console of the browser must show no violation of
the Content-Security-Policy; no element moves after it is shown; no page can be scrolled to the
right in the window of a phone.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urljoin, urlsplit

import pytest
from django.http import HttpRequest
from django.urls import reverse

from scheduler.admin.base import StaffAdmin
from scheduler.admin.site import staff
from scheduler.models import Account
from tests.openid_provider import CLIENT, SECRET, serving
from tests.story import site_pages
from tests.story.browser import PHONE, Visits, code_of, layout_shift, opened, overflow, submit
from tests.story.project import ROOT
from tests.story.test_browser_accounts import PASSWORD as NEW_PASSWORD
from tests.story.test_browser_accounts import mailed_link
from tests.story.test_browser_desk import EMAIL as CHIEF
from tests.story.test_browser_desk import KEEP, STEPS, log_in, make_app
from tests.story.test_browser_providers import CONFIGURATION
from tests.story.volunteers import PASSWORD

pytestmark = [
    pytest.mark.story,
    pytest.mark.lengthy,
    pytest.mark.early,
    pytest.mark.needs("chromium"),
]

GRACE, GRACE_LATER = "grace@example.org", "grace.hopper@example.org"
ONE_RESULT = "SELECT id, workunit_id FROM result WHERE host_id IS NOT NULL LIMIT 1"
PUBLISH = "INSERT INTO news (title, text, published_at) VALUES (%s, %s, now()) RETURNING id"
ONE_KEY = "SELECT id FROM account_key WHERE account_id = %s AND is_current LIMIT 1"
UNSUBSCRIBE = "from scheduler.messages import unsubscribing; print(unsubscribing.link(1, {}))"
CODES = "ul.codes code"


def compute(project, our_client, inputs: dict[str, str], **options: object) -> None:
    """Submit workunits, and let Ada's computer compute them."""
    names = project.submit(inputs, **options)
    unsent = "SELECT count(*) FROM result WHERE server_state = 2"
    project.wait(lambda: project.count(unsent) >= len(names), within=60, what="unsent results")
    our_client(project, "ada").command("run", "--until-idle")


# The check of a page

FORM = b"""<!doctype html><html lang=en><title>A form</title><main><h1>A form</h1>
<form action=next><button>Send</button></form></main>"""
#: A page with a violation: its image has no text.
NEXT = b"""<!doctype html><html lang=en><title>Next</title><main><h1>Next</h1><img src=data:,></main>"""


@pytest.fixture
def late_page():
    """Yield the address of a form; the page that follows comes a second after its headers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            page = NEXT if "next" in self.path else FORM
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            time.sleep(1 if page is NEXT else 0)
            self.wfile.write(page)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_visit_checks_the_page_that_follows_a_form_after_it_is_loaded(late_page):
    with opened(late_page) as page:
        visits = Visits(page)
        page.goto("/")
        page.click("button")
        visits.check()
        [fault] = visits.faults
        assert "/next?: light: image-alt" in fault


#: A page that inserts a box above its text, after a load or after a click.
MOVING = """data:text/html,<html lang=en><title>A page</title><main><h1>A page</h1>
<button>Insert</button></main><script>
const insert = () => document.body.insertAdjacentHTML("afterbegin", "<p style=height:200px>A box");
document.querySelector("button").onclick = insert;
if (location.hash) requestAnimationFrame(() => requestAnimationFrame(insert));
</script>"""


def test_visit_reports_an_element_that_moves_without_an_input():
    with opened("about:blank") as page:
        visits = Visits(page)
        page.goto(MOVING)
        page.click("button")
        page.wait_for_selector("text=A box")
        visits.check()
        assert visits.faults == []
        page.goto("about:blank")
        page.goto(f"{MOVING}#late")
        visits.check()
        [fault] = visits.faults
        assert "#late: layout shift 0." in fault
        assert "<main>" in fault


# The site


@pytest.fixture
def site(make_project, tmp_path):
    """A project with a provider of log-ins, badges and exported statistics."""
    with serving() as provider:
        provider.claims = {"sub": "1", "name": "Lin", "email": "lin@example.org"}
        provider.claims["email_verified"] = True
        file = tmp_path / "providers.toml"
        file.write_text(CONFIGURATION.format(provider.url, CLIENT, SECRET))
        made = make_project(
            DJANGO_SETTINGS_MODULE="tests.story.mail_settings",
            LOGIN_PROVIDERS=str(file),
            PURGE_AFTER="3600",
        )
        made.start()
        yield made


def sign_up(visits: Visits, project) -> None:
    """Create Grace's account, and confirm its address."""
    visits.open("/account/signup/")
    fields = {"email": GRACE, "name": "Grace", "password1": PASSWORD, "password2": PASSWORD}
    visits.press("Create the account", **fields)
    visits.open(mailed_link(project, GRACE, "email/confirm"))
    visits.press("Confirm")


def rows_of(project) -> dict[str, object]:
    """Return the numbers of Ada's rows, and of Grace as a member of Ada's team."""
    project.sql("UPDATE account SET show_hosts = true")
    [host], [result] = project.sql("SELECT id, account_id FROM host"), project.sql(ONE_RESULT)
    [team] = project.sql("SELECT id FROM team")
    [key] = project.sql(ONE_KEY, host["account_id"])
    [member] = project.sql(
        "UPDATE account SET team_id = %s WHERE email = %s RETURNING id", team["id"], GRACE
    )
    texts = ("First results", "Thanks!"), ("More results", "See https://example.org/.\n\nThanks!")
    news_id = [project.sql(PUBLISH, *each)[0]["id"] for each in texts][-1]
    return {
        "provider": "lab",
        "news": news_id,
        "account": host["account_id"],
        "host": host["id"],
        "result": result["id"],
        "workunit": result["workunit_id"],
        "team": team["id"],
        "key": key["id"],
        "member": member["id"],
    }


def change_the_address(visits: Visits, project) -> None:
    """Change Grace's address by the mailed link, and refuse the link's second use."""
    visits.page.context.clear_cookies()
    visits.page.goto("/account/login/")
    submit(visits.page, "Log in", login=GRACE, password=PASSWORD)
    visits.open("/account/email/")
    visits.press("Send the link", email=GRACE_LATER, password=PASSWORD)
    link = mailed_link(project, GRACE_LATER, "email/new")
    visits.open(link)
    visits.press("Change the address")
    visits.open(link)
    assert "link" in visits.page.inner_text("main")


def reset_the_password(visits: Visits, project) -> None:
    """Set a new password by the mailed link, and log in with it."""
    visits.page.context.clear_cookies()
    visits.open("/account/password/reset/")
    visits.press("Send the link", email=GRACE_LATER)
    visits.page.goto(mailed_link(project, GRACE_LATER, "password/reset"))
    visits.check()
    visits.press("Set the password", password1=NEW_PASSWORD, password2=NEW_PASSWORD)
    visits.open("/account/login/")
    visits.press("Log in", login=GRACE_LATER, password="wrong")
    visits.press("Log in", login=GRACE_LATER, password=NEW_PASSWORD)


def use_a_second_factor(visits: Visits) -> None:
    """Set up an authenticator app, log in with a recovery code, and remove the app."""
    page = visits.page
    visits.open("/account/two-factor/totp/activate/")
    visits.press("Use this app", code=code_of(page.inner_text("code.secret")))
    visits.open("/account/two-factor/", "/account/two-factor/recovery-codes/")
    visits.open("/account/two-factor/recovery-codes/generate/")
    visits.press("Make new codes")
    [first, *_] = page.locator(CODES).all_inner_texts()
    page.context.clear_cookies()
    page.goto("/account/login/")
    visits.press("Log in", login=GRACE_LATER, password=NEW_PASSWORD)
    visits.press("Log in", code="000000")
    visits.press("Log in", code=first)
    visits.open("/account/two-factor/reauthenticate/", "/account/ownership/")
    visits.open("/account/two-factor/totp/deactivate/")
    visits.press("Remove it")


def erase_the_account(visits: Visits) -> None:
    visits.open("/account/erase/")
    visits.page.check("[name=sure]")
    visits.press("Erase the account")
    assert visits.page.inner_text("h1") == "Your account is erased"


def prove_ownership(visits: Visits) -> None:
    """Sign a statement, and verify it on the public page; a wrong one is not valid."""
    visits.open("/account/ownership/")
    visits.press("Sign", text="site.example 42")
    statement = visits.page.inner_text("pre.proof")
    signature = visits.page.inner_text("code.secret")
    for sent in (statement, "wrong"):
        visits.open("/ownership/")
        visits.press("Verify", statement=sent, signature=signature)


def log_in_with_another_site(visits: Visits) -> None:
    """Sign up with another site, and ask to remove the only log-in."""
    page = visits.page
    visits.open("/account/login/")
    submit(page, "Continue with The Lab")
    page.wait_for_selector("h1:text-is('Create an account')")
    visits.check()
    visits.press("Create the account")
    visits.open("/account/log-ins/")
    page.click("main a:text-is('Remove')")
    visits.check()
    visits.press("Remove it")


def end_letters(visits: Visits, project, account_id: object) -> None:
    printed = project.manage("shell", "--no-imports", "-c", UNSUBSCRIBE.format(account_id))
    [link] = re.findall(r"http\S+", printed)
    visits.open(urlsplit(link).path)
    visits.press("End letters")
    visits.open("/letters/unsubscribe/wrong/")


def meet_errors(visits: Visits, project) -> None:
    """Open pages with an error status: no such page, a refused form, and an error of the server."""
    page = visits.page
    page.goto("/nothing/")
    assert page.inner_text("h1") == "There is no such page"
    visits.check()
    visits.open("/show_host_detail.php?hostid=1000000")
    page.goto("/account/login/")
    page.context.clear_cookies()
    submit(page, "Log in", login=GRACE, password=PASSWORD)
    assert page.inner_text("h1") == "The form was not accepted"
    visits.check()
    project.sql("ALTER TABLE badge RENAME TO badge_of_another_name")
    page.goto("/badges/")
    project.sql("ALTER TABLE badge_of_another_name RENAME TO badge")
    assert page.inner_text("h1") == "Something broke on our side"
    visits.check()


def check_in_german(visits: Visits, paths: list[str]) -> None:
    """Open pages with longer words on a phone: they fit it, and no element moves."""
    page = visits.page
    window = page.viewport_size
    assert window is not None
    page.set_viewport_size(PHONE)
    root = urljoin(page.url, "/")
    page.context.add_cookies([{"name": "language", "value": "de", "url": root}])
    for path in paths:
        page.goto(path)
        assert page.get_attribute("html", "lang") == "de"
        visits.faults += layout_shift(page) + overflow(page)
    page.context.clear_cookies(name="language")
    page.set_viewport_size(window)


def test_every_page_of_the_site_obeys_the_wcag_and_its_security_policy(site, our_client):
    site.publish()
    compute(site, our_client, {"a": "31\n", "b": "61\n"}, quorum=1)
    site.manage("example_badges")
    site.manage("export_stats")
    with opened(site.url, statuses={401, 403, 404, 410, 500}) as page:
        visits = Visits(page)
        sign_up(visits, site)
        page.context.clear_cookies()
        visits.open("/account/login/")
        visits.press("Log in", login="ada@example.org", password=PASSWORD)
        visits.open("/teams/new/")
        visits.press("Create the team", name="The primes")
        rows = rows_of(site)
        own = site_pages.paths(site_pages.OWN, rows)
        visits.open(*own)
        prove_ownership(visits)
        check_in_german(visits, own)
        page.context.clear_cookies()
        public = site_pages.paths(site_pages.PUBLIC, rows)
        visits.open(*public)
        check_in_german(visits, public)
        end_letters(visits, site, rows["account"])
        log_in_with_another_site(visits)
        change_the_address(visits, site)
        reset_the_password(visits, site)
        use_a_second_factor(visits)
        erase_the_account(visits)
        meet_errors(visits, site)
    assert visits.faults == [], "\n".join(visits.faults)
    expected = {*site_pages.PUBLIC, *site_pages.OWN, *site_pages.STEPS}
    assert expected - visits.names == set()


# The administration

#: The fields of the forms of pages of a row that show a preview.
PREVIEWED = {
    "credit": {"amount": "5", "reason": "Thank you"},
    "rollout": {"rollout_percent": "50"},
    "revalidate": {},
}
SHOW = "[value='Show what will change']"
PREVIEW = "[value='Show the preview']"
#: URLs of Django's admin that lead to other pages, or give parts of pages.
OF_DJANGO = frozenset(
    {
        "app_list",
        "autocomplete",
        "jsi18n",
        "login",
        "logout",
        "password_change",
        "password_change_done",
        "view_on_site",
    }
)


@pytest.fixture
def desk(make_project, tmp_path):
    """A project with an app whose assimilator fails, and with mail that cannot be delivered."""
    keep = tmp_path / "project" / "var" / "science" / "keep"
    keep.parent.mkdir(parents=True)
    keep.write_text(KEEP.format("echo 'no space for the answer' >&2; exit 1"))
    keep.chmod(0o755)
    plugins = tmp_path / "plugins.toml"
    plugins.write_text('[assimilator.keep]\ntarget = "script:keep"\n')
    made = make_project(
        STAFF_SECOND_FACTOR="true",
        PLUGINS=str(plugins),
        PURGE_AFTER="3600",
        EMAIL_URL="smtp://127.0.0.1:9",
    )
    made.start()
    made.manage("create_account", CHIEF, "--password", PASSWORD, "--staff")
    return made


def write_rows(page) -> None:
    """Write a letter, a queue and a team with the forms of the administration."""
    for name, fields in (
        ("letter", {"subject": "News", "text": "Hello."}),
        ("queue", {"name": "urgent"}),
        ("team", {"name": "The primes"}),
    ):
        page.goto(f"{STEPS(name)}add/")
        for field, text in fields.items():
            page.fill(f"[name={field}]", text)
        page.click("[name=_save]")
        assert not page.url.endswith("/add/"), f"{name}: {page.inner_text('#content')}"


def publish_and_change_news(visits: Visits) -> None:
    """Publish news and change it, with the previews; go back to the form once."""
    page = visits.page
    visits.open(STEPS("news") + "add/")
    page.fill("[name=title]", "The first primes")
    page.fill("[name=text]", "They are found.\n\nSee https://example.org/primes.")
    page.click(PREVIEW)
    visits.check()
    page.click("[name=edit]")
    assert page.input_value("[name=text]").startswith("They are found.\n\nSee")
    page.click(PREVIEW)
    page.click("text='Yes, publish it'")
    assert "is published" in page.inner_text(".messagelist")
    page.click("#result_list tbody th a")
    visits.check()
    page.fill("[name=title]", "The first large primes")
    page.click(PREVIEW)
    assert page.inner_text(".versions article:last-child h3") == "The first large primes"
    visits.check()
    page.click("text='Yes, change it'")
    assert "is changed" in page.inner_text(".messagelist")


def preview_a_badge(visits: Visits) -> None:
    """Change a badge, and look at the preview."""
    page = visits.page
    page.goto(STEPS("badge"))
    page.click("#result_list tbody th a")
    page.fill("[name=title]", "Another title")
    page.click("[name=_save]")
    assert page.inner_text("#content h1") == "Really change this badge?"
    visits.check()


def models() -> Iterator[tuple[str, StaffAdmin]]:
    """Yield the address of each list of the administration, with its class."""
    for model, site_page in sorted(staff._registry.items(), key=lambda item: item[0].__name__):
        meta = model._meta
        yield reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist"), site_page


def visit_list(visits: Visits, path: str, site_page: StaffAdmin, request: HttpRequest) -> None:
    """Open a list, the form of a new row, and the pages of the newest row."""
    page = visits.page
    visits.open(path)
    link = page.query_selector("#result_list tbody th a")
    row = None if link is None else link.get_attribute("href")
    if site_page.has_add_permission(request):
        visits.open(f"{path}add/")
    if row is None:
        return
    visits.open(row)
    # One template, but long names in its title.
    page.goto(row.replace("/change/", "/history/"))
    visits.faults += overflow(page)
    row_page = getattr(site_page, "row_page", None)
    if row_page is not None:
        visits.open(row.replace("/change/", f"/{row_page.name}/"))
        if row_page.name in PREVIEWED:
            for name, text in PREVIEWED[row_page.name].items():
                page.fill(f"[name={name}]", text)
            page.click(SHOW)
            visits.check()


def visit_links_of_the_front_page(visits: Visits) -> None:
    """Open the front page and what it links to, except the lists."""
    visits.open("/admin/")
    links = visits.page.eval_on_selector_all(
        "#content a", "links => links.map(link => link.pathname)"
    )
    lists = dict(models())
    for path in [path for path in dict.fromkeys(links) if path not in lists]:
        visits.page.goto(path)
        visits.check()


def try_actions(visits: Visits, path: str) -> set[str]:
    """Start each action of a list for its first row; return those that ask for a confirmation.

    None is confirmed; an action without a preview is carried out.
    """
    page, asking = visits.page, set()
    page.goto(path)
    values = page.eval_on_selector_all(
        "select[name=action] option", "options => options.map(each => each.value)"
    )
    for value in filter(None, values):
        page.goto(path)
        box = page.query_selector("#result_list input[name=_selected_action]")
        if box is None:
            break
        box.check()
        page.select_option("select[name=action]", value)
        page.click("button[name=index]")
        visits.check()
        if page.query_selector(".confirm") is not None:
            asking.add(f"{path.split('/')[-2]} {value}")
    return asking


def visit_retargeting(visits: Visits) -> None:
    """Choose a target for a workunit, and look at the preview."""
    page = visits.page
    page.goto(STEPS("workunit"))
    page.check("#result_list input[name=_selected_action] >> nth=0")
    page.select_option("select[name=action]", "retarget")
    page.click("button[name=index]")
    page.select_option("[name=target_kind]", label="one account")
    page.fill("[name=target_id]", "1")
    page.click(SHOW)
    visits.check()


def switch_maintenance(visits: Visits) -> None:
    """Switch maintenance on and off, with the previews."""
    page = visits.page
    visits.open("/admin/maintenance/")
    page.fill("[name=message]", "New disks.")
    page.fill("[name=until]", "2099-01-31T18:00")
    page.click(SHOW)
    assert "New disks" in page.inner_text(".confirm ul")
    visits.check()
    page.click("text='Yes, switch it on'")
    assert "New disks" in page.inner_text(".desk-notice")
    visits.check()
    page.click("text='Switch it off'")
    visits.check()
    page.click("text='Yes, switch it off'")
    assert "Maintenance is off" in page.inner_text("#content-main")


def send_a_test_letter(visits: Visits) -> None:
    """Send a letter to oneself, so that the outbox has a mail."""
    page = visits.page
    page.goto(STEPS("letter"))
    page.click("#result_list tbody th a")
    page.click("a:text-is('Preview, sending and progress')")
    visits.check()
    page.click("[value=test]")
    assert "A test was sent" in page.inner_text(".messagelist")
    visits.check()


def pages_of_the_desk() -> set[str]:
    """Return the names of the URLs of the desk, of each list, and of each page of a row."""
    names = {each.name for each in staff.get_urls() if getattr(each, "name", None)} - OF_DJANGO
    for model, site_page in staff._registry.items():
        table = f"{model._meta.app_label}_{model._meta.model_name}"
        names.add(f"{table}_changelist")
        if getattr(site_page, "row_page", None) is not None:
            names.add(f"{table}_{site_page.row_page.name}")
    return {f"admin:{name}" for name in names}


def preview_an_outage(visits: Visits) -> None:
    page = visits.page
    visits.open(STEPS("outage") + "add/")
    page.fill("[name=began_at]", "2026-01-10T10:00")
    page.fill("[name=ended_at]", "2026-01-10T12:00")
    page.click(SHOW)
    assert page.inner_text("#content h1") == "Really record this outage?"
    visits.check()


def sort_lists(visits: Visits) -> None:
    """Sort lists and tables by the heads of columns."""
    page = visits.page
    page.goto(STEPS("account"))
    page.click("#result_list th.column-email .text a")
    visits.check()
    page.click("#result_list th.column-total_credit .text a")
    assert "This order lists only accounts" in page.inner_text("#changelist")
    visits.check()
    page.goto("/admin/tables/")
    page.click("#sizes th a:text-is('Table')")
    assert page.get_attribute("#sizes th:has-text('Table')", "aria-sort") == "ascending"
    visits.check()


def preview_a_version(visits: Visits) -> None:
    """Open the preview of an app version that would be published."""
    page = visits.page
    visits.open(STEPS("appversion") + "add/")
    page.select_option("[name=app]", index=1)
    page.fill("[name=version]", "9.00")
    page.select_option("[name=platforms]", "x86_64-pc-linux-gnu")
    page.set_input_files("[name=program]", ROOT / "demo" / "mersenne.py")
    page.click("[value='Show what will be published']")
    assert page.inner_text("#content h1").startswith("Really publish")
    visits.check()


def check_sums(visits: Visits, project) -> None:
    """Request a check that finds a wrong sum, and open the page of its result."""
    page = visits.page
    project.sql("UPDATE host SET total_credit = total_credit + 1")
    visits.open("/admin/upkeep/")
    page.click("button:text-is('Check now')")
    assert "was requested" in page.inner_text(".messagelist")
    visits.check()
    ended = "SELECT count(*) FROM check_run WHERE ended_at IS NOT NULL"
    project.wait(lambda: project.count(ended) == 1, within=60, what="a check of the invariants")
    visits.open("/admin/upkeep/")
    page.click("#checks tbody th a")
    assert "total credit" in page.inner_text(".finding")
    visits.check()


def test_every_page_of_the_administration_obeys_the_wcag_and_its_security_policy(desk, our_client):
    request = HttpRequest()
    request.user = Account(is_active=True, is_staff=True, is_superuser=True)
    with opened(desk.url, statuses={403, 404, 422}) as page:
        visits = Visits(page)
        log_in(page)
        make_app(page)
        compute(desk, our_client, {"a": "31\n", "b": "61\n"}, batch="primes", quorum=1)
        desk.submit({"c": "89\n"}, batch="later")
        parked = "SELECT count(*) FROM science_failure WHERE parked_at IS NOT NULL"
        desk.wait(lambda: desk.count(parked) == 2, within=60, what="parked answers")
        desk.manage("example_badges")
        write_rows(page)
        publish_and_change_news(visits)
        send_a_test_letter(visits)
        check_sums(visits, desk)
        preview_an_outage(visits)
        preview_a_badge(visits)
        preview_a_version(visits)
        sort_lists(visits)
        visit_links_of_the_front_page(visits)
        for path, site_page in models():
            visit_list(visits, path, site_page, request)
        switch_maintenance(visits)
        visit_retargeting(visits)
        asking = set.union(*(try_actions(visits, path) for path, _ in models()))
        page.context.clear_cookies()
        page.goto("/account/login/?next=/admin/")
        submit(page, "Log in", login="ada@example.org", password=PASSWORD)
        assert page.inner_text("h1") == "For staff only"
        visits.check()
    assert visits.faults == [], "\n".join(visits.faults)
    assert asking >= {"workunit cancel", "batch cancel", "team delete_teams"}
    assert pages_of_the_desk() - visits.names == set()
