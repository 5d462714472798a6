"""Parses and formats durations, sizes, numbers and times."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta

from scientist.errors import UsageError

_DURATIONS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SIZES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_SIZES |= {"ki": 1024, "mi": 1024**2, "gi": 1024**3, "ti": 1024**4}
_MAX_LABEL_LENGTH = 120


def duration(text: str) -> timedelta:
    """Parse a duration.  Raises UsageError.

    >>> duration("3d"), duration("90min"), duration("1.5h")
    (datetime.timedelta(days=3), datetime.timedelta(seconds=5400), datetime.timedelta(seconds=5400))
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)\s*", text)
    if match is None:
        raise UsageError(f"{text!r} is not a duration.", "write 90s, 30min, 12h, 3d or 1w.")
    try:
        return timedelta(seconds=float(match[1]) * _DURATIONS[match[2]])
    except OverflowError:
        raise UsageError(f"{text!r} is too long.", "write 90s, 30min, 12h, 3d or 1w.") from None


def size(text: str) -> int:
    """Parse a number of bytes.  Raises UsageError.

    >>> size("1500"), size("10k"), size("2 MiB"), size("1.5GB")
    (1500, 10000, 2097152, 1500000000)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text.lower())
    if match is None:
        raise UsageError(f"{text!r} is not a size.", "write 1500, 10k, 5MB or 2GiB.")
    return round(float(match[1]) * _SIZES[match[2] or ""])


def moment(text: str) -> datetime:
    """Parse a time in ISO 8601; the default time zone is UTC.  Raises UsageError.

    >>> moment("2027-01-31T12:00").isoformat()
    '2027-01-31T12:00:00+00:00'
    """
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        hint = "write 2027-01-31 or 2027-01-31T12:00 (UTC)."
        raise UsageError(f"{text!r} is not a date or time.", hint) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def count(number: float, noun: str = "") -> str:
    """Format a number with spaces between thousands; add the noun in singular or plural.

    >>> count(1, "workunit"), count(100000, "workunit"), count(1000)
    ('1 workunit', '100 000 workunits', '1 000')
    """
    digits = f"{number:,.0f}".replace(",", " ")
    return digits if not noun else f"{digits} {noun}{'s' * (number != 1)}"


def nbytes(number: float) -> str:
    """Format a number of bytes with SI prefixes.

    >>> nbytes(999), nbytes(1536000), nbytes(2e10)
    ('999 B', '1.5 MB', '20.0 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004  SI
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def span(seconds: float) -> str:
    """Format a number of seconds as a duration in its two largest units.

    >>> span(0.4), span(38), span(754), span(7384), span(200000)
    ('0 s', '38 s', '12 min 34 s', '2 h 3 min', '2 d 7 h')
    """
    whole = round(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next((i for i, (n, _) in enumerate(parts) if n), len(parts) - 1)
    return " ".join(f"{n} {unit}" for n, unit in parts[first : first + 2] if n) or "0 s"


def rate(per_second: float) -> str:
    """Format a rate per second, with the first of s, min, h and d in which it is at least 1.

    >>> rate(12.34), rate(0.2), rate(0.001), rate(0)
    ('12.3/s', '12.0/min', '3.6/h', '0/s')
    """
    if per_second <= 0:
        return "0/s"
    for factor, unit in ((1, "s"), (60, "min"), (3600, "h")):
        if per_second * factor >= 1:
            return f"{per_second * factor:.1f}/{unit}"
    return f"{per_second * 86400:.1f}/d"


def local(at: datetime | None) -> str:
    """Format a time in the local time zone with seconds, or return "-" for None.

    >>> local(None)
    '-'
    """
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else "-"


def label(text: str) -> str:
    """Convert a text to a part of a workunit's name.

    The part has only ASCII letters, digits and the characters ``_ . + = -``.

    >>> label("Prot\u00e9ine n\u00b0 7.pdb"), label("../x"), label("\u7532")
    ('Proteine_n_7.pdb', 'x', 'u7532')
    """
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    plain = "".join(char if char.isascii() else _ascii(char) for char in plain)
    plain = re.sub(r"[^A-Za-z0-9_.+=-]+", "_", plain)
    plain = re.sub(r"\.{2,}", ".", plain).strip("_.")
    return plain[:_MAX_LABEL_LENGTH].lstrip(".+=-") or "x"


def _ascii(char: str) -> str:
    return f"u{ord(char):x}" if char.isalnum() else " "
