"""Endpoint that submits a workunit for each document of a query or a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.authentication import may, missing_scope
from scheduler.api.endpoints.submissions import SubmissionIn, SubmissionOut, submission_problems
from scheduler.api.http import idempotent
from scheduler.api.http.body import JsonObject, Shown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.api.http.time_limits import time_limit
from scheduler.api.search import fields
from scheduler.api.search.expressions import BadFilter, condition
from scheduler.api.shown import RESULT_STATES
from scheduler.api.viewer import viewer_of
from scheduler.models import Host
from scheduler.people import submitters
from scheduler.work import submitted
from scheduler.work.submission import bulk
from scheduler.work.submission.rules import document_templates
from scheduler.work.submission.rules.document_templates import MAX_DOCUMENTS, BadDocuments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from django.db.models import QuerySet
    from rest_framework.request import Request

#: Number of workunits that a dry run shows.
MAX_SHOWN: Final = 20
_STATES: Final = {(int(s.server_state), int(s.outcome)): word for word, s in RESULT_STATES.items()}
#: Columns of the documents of each list.  Texts that volunteers can choose, as the name of a host,
#: are not among them, because a document can become part of a command.
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "workunits": {
        name: name
        for name in ("id", "name", "status", "priority", "hold_code", "command_line", "meta")
    }
    | {"app": "app__name", "batch": "batch_id", "canonical_result": "canonical_result_id"},
    "results": {name: name for name in ("id", "name", "attempt", "exit_status", "app_status")}
    | {
        "workunit": "workunit_id",
        "batch": "workunit__batch_id",
        "app": "app__name",
        "host": "host_id",
        "server_state": "server_state",
        "outcome": "outcome",
    },
    "hosts": {"id": "id", "ncpus": "p_ncpus", "memory_nbytes": "m_nbytes", "denied": "denied"},
}
_FIELDS: Final = {"workunits": fields.WORKUNITS, "results": fields.RESULTS, "hosts": fields.HOSTS}


class Source(Strict):
    """Where the documents come from: one of a list with a filter, a CSV or JSON lines."""

    workunits = JsonObject(required=False, help_text="A filter of workunits; see docs/search.md.")
    results = JsonObject(required=False, help_text="A filter of results.")
    hosts = JsonObject(required=False, help_text="A filter of hosts.")
    csv = serializers.CharField(
        required=False, trim_whitespace=False, help_text="Lines of values; the first has names."
    )
    json_lines = serializers.CharField(
        required=False, trim_whitespace=False, help_text="A JSON object per line."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Raise `Problem` (422) unless there is exactly one source."""
        if len(attrs) != 1:
            names = ", ".join(self.fields)
            msg = f"The source names {len(attrs)} of its fields. Hint: give one of {names}."
            raise Problem(422, "bad_source", msg)
        return attrs


class QuerySubmissionIn(SubmissionIn):
    """A template of a workunit, and the documents that fill it."""

    workunits = None  # type: ignore[assignment]  # replaced by the two following fields
    source = Source()  # type: ignore[assignment]  # a field
    workunit = JsonObject(
        help_text="Fields of each workunit. The text document.NAME becomes the field NAME of the "
        "document, and {document.NAME} inside a longer text is replaced by it."
    )
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="Only return what would be submitted."
    )


class DryRun(Shown):
    """The workunits that would be submitted."""

    count = serializers.IntegerField(help_text="Number of workunits.")
    workunits = serializers.ListField(
        child=JsonObject(), help_text=f"The first {MAX_SHOWN} workunits."
    )


class QuerySubmissions(Endpoint):
    write_scope = Scope.SUBMIT

    @operation(
        "Submit workunits from a query",
        name="submit_from_query",
        answer={200: DryRun, 201: SubmissionOut},
        body=QuerySubmissionIn,
        keyed=True,
        problems=(403, 409, 413, 422, 503),
    )
    def post(self, request: Request) -> Response:
        """Submits a workunit for each document of the source; all workunits, or none.

        The documents are rows of a list that the caller can see, lines of a CSV, or JSON objects;
        at most 10000. With `dry_run`, the workunits are checked and the first 20 are returned.
        """
        if response := idempotent.stored_response(request):
            return response
        data = self.body()
        submitters.require_submitter(self.account)
        template = data["workunit"]
        workunits = list(document_templates.expand(template, self._documents(data["source"])))
        if not workunits:
            msg = "The source has no documents. Hint: check it with a list and the same filter."
            raise Problem(422, "no_documents", msg)
        head: dict[str, Any] = {
            name: data[name] for name in ("app", "batch", "defaults") if name in data
        }
        if data["dry_run"]:
            return self._dry_run(head, workunits)
        key = request.headers.get(idempotent.HEADER)
        with submission_problems(is_stream=False):
            outcome = bulk.submit_lines(
                bulk.read_head(head, now=self.now),
                _lines(workunits),
                submitter=self.account,
                key=None if key is None else bulk.Key(key, lambda: idempotent.digest_of(request)),
                now=self.now,
            )
        return idempotent.to_response(outcome)

    def _dry_run(self, head: dict[str, Any], workunits: list[dict[str, Any]]) -> Response:
        with submission_problems(is_stream=False):
            bulk.check_lines(
                bulk.read_head(head, now=self.now),
                _lines(workunits),
                submitter=self.account,
                now=self.now,
            )
        body = {"count": len(workunits), "workunits": workunits[:MAX_SHOWN]}
        return Response(DryRun(body).data)

    def _documents(self, source: dict[str, Any]) -> Iterable[Mapping[str, Any]]:
        [(name, value)] = source.items()
        if name == "csv":
            return document_templates.read_csv(value)
        if name == "json_lines":
            return document_templates.read_json_lines(value)
        if not may(self.request, Scope.READ):
            raise missing_scope(self.request, Scope.READ)
        rows = self._rows(name)
        try:
            rows = rows.filter(condition(value, _FIELDS[name])) if value else rows
        except BadFilter as error:
            raise Problem(422, "bad_filter", str(error)) from None
        columns = _COLUMNS[name]
        with time_limit():
            values = rows.order_by("pk").values_list(*columns.values())
            documents = list(values[: MAX_DOCUMENTS + 1])
        if len(documents) > MAX_DOCUMENTS:
            raise BadDocuments(
                f"The filter selects more than {MAX_DOCUMENTS} {name}. Hint: add a condition, as "
                'a range of ids: {"id": {"gt": 5000}}.'
            )
        return [_document(columns, row) for row in documents]

    def _rows(self, name: str) -> QuerySet[Any]:
        """Return the rows of a list that the caller may see."""
        viewer = viewer_of(self.request)
        if name == "workunits":
            return submitted.workunits(viewer, now=self.now)
        if name == "results":
            return submitted.results(viewer)
        return Host.objects.all() if viewer is None else Host.objects.filter(account=viewer)


def _document(columns: Mapping[str, str], row: tuple[Any, ...]) -> dict[str, Any]:
    document = dict(zip(columns, row, strict=True))
    if "server_state" in document:
        document["state"] = _STATES[document.pop("server_state"), document.pop("outcome")]
    return document


def _lines(workunits: list[dict[str, Any]]) -> Iterable[bulk.Line]:
    return (bulk.Line(number, own) for number, own in enumerate(workunits))
