"""Reports the beginning and the end of alerts by mail and webhook.

Theory of operation.  The housekeeper calls `report` every minute.  The table ``alert_state`` has
the alerts of the last call; the difference to the current alerts is the change.  An alert that has
lasted for `LASTS_FOR` is reported once, and once more when it ends.  An alert that ends earlier is
not reported.  All changes of one call are in one message for each recipient.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from scheduler import sql
from scheduler.files import fetching
from scheduler.files.rules.sources import BadSource
from scheduler.health import alerts
from scheduler.health.rules import report_texts
from scheduler.health.rules.report_texts import LASTS_FOR, Reported
from scheduler.messages import outbox
from scheduler.messages.rules import mail_rules
from scheduler.models import AlertState

_TIMEOUT_SECONDS: Final = 10.0
_OK, _REDIRECTS = 200, 300
#: Statuses that another attempt does not change: the address or its secret is wrong.
_FINAL: Final = frozenset({400, 401, 403, 404, 405, 410, 413})
_MAX_SUBJECT: Final = 254
#: The maximum length of a sentence and a hint, so that a message with all alerts is not too long.
_MAX_TEXT: Final = 300


def report(*, now: datetime) -> int:
    """Store the current alerts, and queue messages about changes; return the number of changes.

    Nothing is read if neither `ALERT_MAIL` nor `ALERT_WEBHOOK` is set.
    """
    if not _is_on():
        return 0
    mails_to = settings.ALERTS.mail if outbox.sends_mail() else ()
    current = {
        (alert.kind, _text(alert.subject, _MAX_SUBJECT)): alert for alert in alerts.current(now=now)
    }
    params: dict[str, Any] = {
        "now": now,
        "before": now - LASTS_FOR,
        "kinds": [kind for kind, _ in current],
        "subjects": [subject for _, subject in current],
        "sentences": [_text(alert.sentence) for alert in current.values()],
        "hints": [_text(alert.hint) for alert in current.values()],
    }
    with transaction.atomic():
        gone = sql.fetch("health/forget_ended_alerts", params)
        ended = [Reported(**row) for row in gone if row.pop("reported_at") is not None]
        sql.execute("health/keep_alerts", params)
        began = sql.fetch_into(Reported, "health/report_new_alerts", params)
        if began or ended:
            _queue(mails_to, began, ended, now=now)
    return len(began) + len(ended)


def forget_unreported() -> None:
    """Delete the stored alerts if no alerts are reported.

    Otherwise their ends would be reported when reports are switched on again.
    """
    if not _is_on():
        AlertState.objects.all().delete()


def _is_on() -> bool:
    return bool(settings.ALERTS.webhook or (settings.ALERTS.mail and outbox.sends_mail()))


def _queue(
    mails_to: tuple[str, ...], began: list[Reported], ended: list[Reported], *, now: datetime
) -> None:
    project = settings.PROJECT
    title = report_texts.title(project.name, began, ended)
    subject = mail_rules.one_line(title, mail_rules.MAX_SUBJECT)
    if mails_to:
        text = report_texts.body(project.name, project.master_url, began, ended, now=now)
        outbox.add(mails_to, subject, text, now=now)
    if settings.ALERTS.webhook:
        content = report_texts.data(project.name, project.master_url, began, ended, now=now)
        host = urlsplit(settings.ALERTS.webhook).hostname or ""
        body = json.dumps(content, ensure_ascii=False)
        outbox.add([host], subject, body, now=now, kind=outbox.Kind.WEBHOOK)


def post(message: outbox.Message) -> None:
    """Post the message to `ALERT_WEBHOOK`; raises `outbox.DeliveryFailed`.

    The URL's path is often a secret, so it is not in the reason.
    """
    url = settings.ALERTS.webhook
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Manyhands",
        "Idempotency-Key": f"alerts-{message.id}-{message.created_at:%Y%m%d%H%M%S%f}",
    }
    try:
        answer = fetching.post(
            url,
            message.text.encode(),
            headers,
            private_hosts=frozenset(settings.PROJECT.webhook_hosts),
            timeout=_TIMEOUT_SECONDS,
            seconds=outbox.MAX_DELIVERY_SECONDS,
        )
    except (BadSource, fetching.SourceFailed) as error:
        reason = str(error).partition(" Hint:")[0].replace(url, "ALERT_WEBHOOK")
        raise outbox.DeliveryFailed(reason) from None
    if not _OK <= answer.status < _REDIRECTS:
        raise outbox.DeliveryFailed(
            f"{message.recipient} answered {answer.status} {answer.reason}",
            is_final=answer.status in _FINAL,
        )


def _text(text: str, max_length: int = _MAX_TEXT) -> str:
    return text.replace("\0", "")[:max_length]
