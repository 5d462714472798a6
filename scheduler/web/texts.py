"""Shows numbers, and texts of other packages, in the visitor's language.

Texts that pages share with the API and commands are made in English by packages that do not use
Django.  Those that pages translate are listed here, in `work_texts` and in `keyword_texts`, so that
`make messages` finds them.  A text with a value is listed as a pattern, in which `%(name)s` stands
for the value.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from typing import Final

from django.utils import formats
from django.utils.translation import gettext, gettext_noop

from scheduler.web import keyword_texts, work_texts

#: The longest text that is compared with the patterns.
_MAX_LENGTH: Final = 1000


def number(value: float | Decimal, decimals: int = 0) -> str:
    """Return a number with separators of the language, rounded.

    >>> number(12345), number(0.25, 1)
    ('12,345', '0.2')
    """
    return str(formats.number_format(f"{value:.{decimals}f}", decimals, force_grouping=True))


def amount(value: Decimal) -> str:
    """Return a number with separators of the language, and without zeros at its end.

    >>> amount(Decimal("1200.500000")), amount(Decimal("10000"))
    ('1,200.5', '10,000')
    """
    exponent = value.normalize().as_tuple().exponent
    return number(value, max(0, -exponent) if isinstance(exponent, int) else 0)


def translated(text: str) -> str:
    """Return a text of another package in the visitor's language; unlisted ones stay as they are.

    >>> translated("waiting for validation")
    'waiting for validation'
    """
    if text in _fixed_texts():
        return gettext(text)
    if len(text) <= _MAX_LENGTH:
        for pattern, compiled in _compiled():
            match = compiled.fullmatch(text)
            if match is not None:
                values = match.groupdict()
                return gettext(pattern) % {
                    name: _amount(value) if name in work_texts.AMOUNTS else value
                    for name, value in values.items()
                }
    return text


def is_listed(text: str) -> bool:
    """Return whether pages translate a text of another package.

    >>> is_listed("VirtualBox 5.1 does not suit these tasks; install another version.")
    True
    """
    return text in _fixed_texts() or any(each.fullmatch(text) for _, each in _compiled())


def _amount(text: str) -> str:
    """Return a decimal number, which may be a percentage, with separators of the language.

    >>> _amount("1234.50"), _amount("95.0%"), _amount("8")
    ('1,234.50', '95.0 %', '8')
    """
    digits = text.removesuffix("%")
    decimals = len(digits.partition(".")[2])
    return number(Decimal(digits), decimals) + (" %" if digits != text else "")


@cache
def _fixed_texts() -> frozenset[str]:
    return frozenset(TEXTS)


@cache
def _compiled() -> list[tuple[str, re.Pattern[str]]]:
    return [(pattern, _expression(pattern)) for pattern in PATTERNS]


def _expression(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"%\((\w+)\)s", pattern)
    names = parts[1::2]
    for index, name in enumerate(names):
        repeated = name in names[:index]
        value = r"\d+(?:\.\d+)?%?" if name in work_texts.AMOUNTS else ".*"
        parts[2 * index + 1] = f"(?P={name})" if repeated else f"(?P<{name}>{value})"
    parts[::2] = [re.escape(part) for part in parts[::2]]
    return re.compile("".join(parts), re.DOTALL)


#: Texts without values.
TEXTS: Final = (
    *work_texts.TEXTS,
    *keyword_texts.TEXTS,
    # Computing preferences
    gettext_noop("When to compute"),
    gettext_noop("Compute while the computer runs on batteries"),
    gettext_noop("Compute while the computer is in use"),
    gettext_noop("Use the GPU while the computer is in use"),
    gettext_noop("The computer counts as in use until it had no input for"),
    gettext_noop("minutes"),
    gettext_noop("Stop if the computer had no input for"),
    gettext_noop("Lets the computer go to sleep. 0 means never."),
    gettext_noop("Stop while other programs use more of the processors than"),
    gettext_noop("0 means never."),
    gettext_noop("Compute only from"),
    gettext_noop("If both hours are the same, any time is allowed. 8.5 is half past eight."),
    gettext_noop("hour of the day"),
    gettext_noop("Compute only until"),
    gettext_noop("Processors"),
    gettext_noop("Processors, at most"),
    gettext_noop("Processor time, at most"),
    gettext_noop("Less than 100 % keeps the computer cooler."),
    gettext_noop("Processors while idle, at most"),
    gettext_noop(
        "While the computer is not in use, for clients from version 8 on. 0 means as above."
    ),
    gettext_noop("Processor time while idle, at most"),
    gettext_noop("Switch between tasks every"),
    gettext_noop("Work on the computer"),
    gettext_noop("Work to store, at least"),
    gettext_noop("Increase it for a computer that is rarely connected."),
    gettext_noop("days"),
    gettext_noop("Additional work, at most"),
    gettext_noop("Save states of tasks every"),
    gettext_noop("seconds"),
    gettext_noop("Memory"),
    gettext_noop("Memory while in use, at most"),
    gettext_noop("Memory while not in use, at most"),
    gettext_noop("Page file or swap space, at most"),
    gettext_noop("Keep stopped tasks in memory"),
    gettext_noop("Tasks then continue where they stopped, instead of where they last saved."),
    gettext_noop("Disk"),
    gettext_noop("Disk space, at most"),
    gettext_noop("0 means no limit."),
    gettext_noop("Free disk space, at least"),
    gettext_noop("Share of the disk, at most"),
    gettext_noop("Network"),
    gettext_noop("Download rate, at most"),
    gettext_noop("Upload rate, at most"),
    gettext_noop("Transfers in a period, at most"),
    gettext_noop("Period of transfers"),
    gettext_noop("0 means that transfers are not limited."),
    gettext_noop("Transfer only from"),
    gettext_noop("Transfer only until"),
    # Project preferences
    gettext_noop("Processor"),
    gettext_noop("NVIDIA GPU"),
    gettext_noop("AMD GPU"),
    gettext_noop("Intel GPU"),
    gettext_noop("Apple GPU"),
    gettext_noop("Resource share"),
    gettext_noop(
        "A project with share 200 gets twice the time of one with 100, the default. With 0, "
        "this project's tasks are computed only while no other project has work."
    ),
    gettext_noop("Selected apps"),
    gettext_noop("If none is selected, tasks of all apps are sent."),
    gettext_noop("If there is no work of the selected apps, send work of others"),
    gettext_noop("Applies only if apps are selected."),
    gettext_noop("Run test apps"),
    gettext_noop(
        "Test apps can fail more often. Their tasks are sent only to volunteers who allow it."
    ),
    gettext_noop("Tasks on a computer, at most"),
    gettext_noop("Tasks of this project in progress on each computer. 0 means no limit."),
    gettext_noop("Processors of a computer, at most"),
    gettext_noop("Processors of each computer that this project gets work for. 0 means no limit."),
    # States of results
    gettext_noop("in progress"),
    gettext_noop("waiting for validation"),
    gettext_noop("valid"),
    gettext_noop("invalid"),
    gettext_noop("error"),
    gettext_noop("The report arrived. The result is not validated yet."),
    # Workunits
    gettext_noop("waiting for an answer"),
    gettext_noop("answered"),
    gettext_noop("The project accepted an answer. The workunit is complete."),
    gettext_noop("The project does not need the workunit any more, and cancelled it."),
    gettext_noop("The project needed the answer by a certain time, which has passed."),
    gettext_noop("The workunit needed the answer of another one, which failed."),
    gettext_noop("The program failed on too many computers."),
    gettext_noop("Too many computers did not report before their deadlines."),
    gettext_noop("Too many results arrived that do not agree."),
    gettext_noop("The results that were compared do not agree."),
    gettext_noop("It was sent to as many computers as permitted, without an answer."),
    gettext_noop("No computer could get the workunit."),
    gettext_noop("The workunit ended without an answer."),
    gettext_noop(
        "It waits for your computer, which has not reported its result yet. Other computers "
        "can have it, too."
    ),
    gettext_noop(
        "Your result arrived. The project has not accepted an answer yet: it waits for results"
        " of other computers, or for the comparison of results."
    ),
    gettext_noop(
        "Your result gave no answer. The workunit waits for the result of another computer."
    ),
    # Results
    gettext_noop(
        "The results that were compared do not agree. Another computer computes the workunit "
        "again, and decides."
    ),
    gettext_noop("The result is correct: it agrees with the accepted answer."),
    gettext_noop("The output disagrees with the accepted answer of the workunit."),
    gettext_noop("The result was not validated, because the workunit ended without an answer."),
    gettext_noop("The report arrived after the files for the comparison were deleted."),
    gettext_noop("The program failed on your computer."),
    gettext_noop("Your computer did not report the result before the deadline."),
    gettext_noop("The computer was detached from the project, or the project was reset on it."),
    gettext_noop(
        "The validator refused the output before it was compared with others, because a file "
        "was missing or unreadable."
    ),
    gettext_noop("The result was not needed any more."),
    gettext_noop("The result could not be sent."),
    gettext_noop("The app grants the same amount for every valid result."),
    gettext_noop(
        "The claim of a result is its elapsed time × the speed of the devices used. All "
        "valid results of a workunit get the mean of their claims, without the highest one."
    ),
    gettext_noop(
        "The claim of a result is its elapsed time × the speed of the devices used, "
        "corrected by the usual claims of the computer and of the app version. All valid "
        "results of a workunit get the same average of their claims."
    ),
    gettext_noop("The app grants no credit."),
    gettext_noop("Your computer has the result, and has not reported it yet."),
    gettext_noop("The result was aborted on your computer."),
    gettext_noop("The project aborted the result, because it was not needed any more."),
    # Requests for work
    gettext_noop("1 result sent"),
    gettext_noop("No work: the available results do not fit this computer"),
    gettext_noop("No work: the project had no results to send"),
    gettext_noop("your preferences exclude the app, beta apps or a keyword"),
    gettext_noop("the app has no version for this kind of computer"),
    gettext_noop("your app_info.xml has no usable version of the app"),
    gettext_noop("the computer lacks something that the app version needs"),
    gettext_noop("the app runs on devices for which your client requested no work"),
    gettext_noop("the work is bound to another class of computers or another app version"),
    gettext_noop("a new version of the app is sent to other computers first"),
    gettext_noop("the server cannot classify this computer"),
    gettext_noop("the computer has reached its daily quota; valid results raise it"),
    gettext_noop("the work needs more processors than the computer offers"),
    gettext_noop("the work needs more GPUs than the computer offers"),
    gettext_noop("the work needs more memory than BOINC may use here; see your preferences"),
    gettext_noop("the work needs more disk space than BOINC may use here; see your preferences"),
    gettext_noop("other results of the same request need the disk space"),
    gettext_noop("the work needs a faster network connection"),
    gettext_noop("the computer would not finish the work before its deadline"),
    gettext_noop("the work is reserved for reliable computers for some time"),
    gettext_noop("the computer has its maximum of results in progress"),
    gettext_noop("the outputs of the results in progress could exceed a limit"),
    gettext_noop("the project has stopped this kind of work"),
    gettext_noop("the project has paused this kind of work"),
    gettext_noop("this kind of work goes to other computers"),
    gettext_noop("enough of this kind of work is in progress"),
    gettext_noop("the settings of your client exclude this kind of work"),
    # The status page
    gettext_noop("waiting for assimilation"),
    gettext_noop("waiting for deletion"),
    gettext_noop("finished"),
    gettext_noop("failed"),
    gettext_noop("inactive"),
    gettext_noop("unsent"),
    gettext_noop("over"),
    gettext_noop("accounts"),
    gettext_noop("hosts"),
    gettext_noop("creates workunits with the science code"),
    gettext_noop("decides what each workunit needs next"),
    gettext_noop("gives up results whose deadline has passed"),
    gettext_noop("compares results"),
    gettext_noop("passes answers to the science code"),
    gettext_noop("handles messages of running results"),
    gettext_noop("deletes files that are no longer needed"),
    gettext_noop("archives finished workunits"),
    gettext_noop("does daily chores"),
    # Types of teams
    gettext_noop("club"),
    gettext_noop("company"),
    gettext_noop("primary school"),
    gettext_noop("secondary school"),
    gettext_noop("junior college"),
    gettext_noop("university"),
    gettext_noop("government"),
    gettext_noop("Club"),
    gettext_noop("Company"),
    gettext_noop("Primary school"),
    gettext_noop("Secondary school"),
    gettext_noop("Junior college"),
    gettext_noop("University"),
    gettext_noop("Government"),
    # Refusals
    gettext_noop("This code was used before. Hint: wait for the next one."),
    gettext_noop("This log-in belongs to another account. Hint: remove it there first."),
    gettext_noop("This is the only way to log in to your account. Hint: set a password first."),
    gettext_noop(
        "Too many people are logging in at this moment. Hint: try again in a few seconds."
    ),
    gettext_noop("The password is wrong. Hint: check it."),
    gettext_noop("The password was changed meanwhile. Hint: log in again."),
    gettext_noop("The password is empty. Hint: give a password."),
    gettext_noop(
        "This link is not valid: it was used before, was replaced by a newer one, or is "
        "older than a day. Hint: request the change again on the page of your account."
    ),
    gettext_noop("The account is not active. Hint: ask the project."),
    gettext_noop("The account has no team. Hint: join a team first."),
    gettext_noop("The account cannot remove itself. Hint: leave the team."),
    gettext_noop(
        "These preferences were changed meanwhile, in another window or by a computer. Hint: "
        "compare them with the stored values, and save again to replace these."
    ),
    gettext_noop("The default location cannot be removed. Hint: reset its settings."),
)
#: Texts with values.
PATTERNS: Final = (
    *work_texts.PATTERNS,
    gettext_noop("%(count)s results sent"),
    gettext_noop("1 result sent, and %(count)s result sent again"),
    gettext_noop("1 result sent, and %(count)s results sent again"),
    gettext_noop("%(sent)s results sent, and %(count)s result sent again"),
    gettext_noop("%(sent)s results sent, and %(count)s results sent again"),
    gettext_noop(
        "Too many wrong passwords for this account from your network %(network)s. Hint: wait "
        "%(seconds)s seconds, and check e-mail address and password."
    ),
    gettext_noop(
        "Too many wrong passwords for this account from networks that are new to it. Hint: wait "
        "%(seconds)s seconds, and check e-mail address and password."
    ),
    gettext_noop(
        "Too many wrong codes for this account. Hint: wait %(seconds)s seconds, and check e-mail "
        "address and password."
    ),
    gettext_noop(
        "Too many log-in attempts from your network %(network)s. Hint: wait %(seconds)s "
        "seconds, and check e-mail address and password."
    ),
    gettext_noop(
        "Too many accounts were created from your network %(network)s today. Hint: wait "
        "%(seconds)s seconds, and check e-mail address and password."
    ),
    gettext_noop(
        "Too many mails were requested for %(email)s. Hint: wait %(seconds)s seconds, and check "
        "e-mail address and password."
    ),
    gettext_noop(
        "This account has created %(count)s teams within a day, which is the limit. Hint: "
        "wait %(seconds)s seconds."
    ),
    gettext_noop(
        "%(name)s has terms of use, which were not accepted. Hint: accept them in BOINC "
        "Manager, or send consent_flag=1."
    ),
    gettext_noop(
        "An account with the address %(email)s exists. Hint: log in with its password, or "
        "use another address."
    ),
    gettext_noop(
        "An account with the address %(email)s exists. Hint: log in to it, and connect this "
        "log-in on the account page."
    ),
    gettext_noop(
        "An account has at most %(count)s log-ins with other sites. Hint: remove one first."
    ),
    gettext_noop("%(name)s does not accept new accounts. Hint: ask its staff for one."),
    gettext_noop("%(email)s is not an e-mail address. Hint: check its spelling."),
    gettext_noop(
        "%(email)s is not an e-mail address that mail can be sent to. Hint: write it as "
        "you@example.org, in ASCII."
    ),
    gettext_noop("The e-mail address has %(count)s characters. Hint: give at most %(max)s."),
    gettext_noop(
        "The e-mail address became %(email)s, and the digest of a password depends on it. Hint: "
        "try again."
    ),
    gettext_noop("%(name)s is not a name. Hint: give 1 to %(max)s characters, no < or >."),
    gettext_noop(
        "%(name)s is not a name of a key. Hint: give 1 to %(max)s characters, without line breaks."
    ),
    gettext_noop("The account has %(count)s keys, which is the limit. Hint: revoke one first."),
    gettext_noop("The account has no unrevoked key %(number)s. Hint: list its keys."),
    gettext_noop("Your address already is %(email)s. Hint: give another one."),
    gettext_noop(
        "%(email)s is a member of the project's staff. Hint: have the rights taken by "
        "another member first."
    ),
    gettext_noop("%(venue)s is not a venue. Hint: use home, school or work."),
    gettext_noop("%(venue)s is not a location. Hint: use home, school or work, or omit it."),
    gettext_noop(
        "The location %(venue)s has no settings of its own. Hint: those of the default location "
        "apply."
    ),
    gettext_noop("%(value)s is not a limit. Hint: give a whole number from 0 to %(max)s."),
    gettext_noop(
        "The preferences would be longer than %(max)s bytes. Hint: reset them to the "
        "defaults, which drops settings of other programs."
    ),
    gettext_noop(
        "Texts of teams and home pages are public, so they need a confirmed e-mail address. Hint: "
        "follow the link in our mail; the page %(page)s sends it again."
    ),
    gettext_noop("Only the founder of %(team)s may do this. Hint: ask the founder."),
    gettext_noop(
        "Only the founder and the administrators of %(team)s may do this. Hint: ask the founder."
    ),
    gettext_noop(
        "Account %(number)s is not an administrator of %(team)s. "
        "Hint: list the members of the team."
    ),
    gettext_noop(
        "%(team)s has %(count)s administrators, which is the limit. "
        "Hint: dismiss one of them first."
    ),
    gettext_noop("There is no team %(number)s. Hint: look the team up by its name."),
    gettext_noop(
        "Account %(number)s is not an active member of %(team)s. Hint: list the members of the "
        "team."
    ),
    gettext_noop(
        "Account %(number)s is not a member of %(team)s. Hint: list the members of the team."
    ),
    gettext_noop(
        "Work of the project is only for the team %(team)s. Hint: ask the operators to give it to "
        "other computers first."
    ),
    gettext_noop("%(value)s is not a type of teams. Hint: use 0 to %(max)s."),
    gettext_noop(
        "The description has %(count)s characters. Hint: give at most %(max)s, without NUL."
    ),
    gettext_noop("The country has %(count)s characters. Hint: give at most %(max)s, without NUL."),
    gettext_noop("The url has %(count)s characters. Hint: give at most %(max)s, without NUL."),
    gettext_noop("The account is the founder of %(team)s already."),
    gettext_noop("The account is the founder of %(team)s already. Hint: name another member."),
    gettext_noop("%(value)s is not an address of the web. Hint: begin it with https://."),
    gettext_noop("The foundership of %(team)s was not requested."),
    gettext_noop("Team %(team)s accepts no members. Hint: ask its founder."),
    gettext_noop(
        "%(team)s has other active members. "
        "Hint: remove them, or hand over the foundership and leave."
    ),
    gettext_noop(
        "Team %(number)s has more than %(count)s members. Hint: set the team to accept no members."
    ),
    gettext_noop("There is a team %(name)s already. Hint: choose another name."),
    gettext_noop("The members of %(team)s changed at the same time. Hint: try again."),
    gettext_noop("%(url)s is not a web address. Hint: begin it with https://."),
    gettext_noop(
        "The invitation code is missing. Hint: ask the project's staff for a code, and "
        "create the account with it: %(command)s"
    ),
    gettext_noop(
        "The invitation code is unknown, expired or used up. Hint: ask the project's staff "
        "for a code, and create the account with it: %(command)s"
    ),
    gettext_noop(
        "The founder of %(team)s cannot leave it while it has other active members. Hint: "
        "transfer the foundership first."
    ),
    gettext_noop(
        "The foundership of %(team)s was requested on %(day)s. Hint: request it after %(after)s."
    ),
    gettext_noop(
        "The account has no open request for the foundership of %(team)s. Hint: request it first."
    ),
    gettext_noop(
        "The founder of %(team)s has time to answer until %(day)s. Hint: try again after that day."
    ),
    gettext_noop(
        "Computer %(number)s is denied or limited by the project. Hint: ask the project's "
        "staff to merge it."
    ),
    gettext_noop(
        "Computer %(number)s is denied or limited by the project. Hint: ask the project's staff."
    ),
    gettext_noop(
        "Computer %(newer)s contacted the project after computer %(older)s was attached, so "
        "they are different machines. Hint: merge an older entry into a newer one."
    ),
    gettext_noop(
        "Computers %(first)s and %(second)s have different processors or operating systems. "
        "Hint: ask the project's staff if they are the same machine."
    ),
    gettext_noop(
        "Computer %(number)s has results in progress. Hint: report or abort them, or wait "
        "for their deadline."
    ),
    gettext_noop(
        "The project still keeps results of computer %(number)s. Hint: delete it when they "
        "are no longer listed."
    ),
    gettext_noop(
        "The project has work that only computer %(number)s may do. Hint: ask the project's staff."
    ),
    gettext_noop("Computer %(number)s is in a pool. Hint: have its tokens revoked first."),
    gettext_noop("The account has no computer %(number)s. Hint: list the account's computers."),
    gettext_noop("There is no host %(number)s. Hint: look hosts up in the admin."),
    gettext_noop("Host %(number)s cannot be merged into itself. Hint: name two different hosts."),
    gettext_noop(
        "Host %(first)s and host %(second)s both have results of the workunit %(workunit)s in "
        "progress. Hint: merge them after one is reported."
    ),
    gettext_noop("Host %(number)s was deleted by its owner."),
    gettext_noop("Host %(first)s is merged into host %(second)s already."),
    gettext_noop("There is no scope %(scope)s. Hint: the scopes are %(scopes)s."),
    gettext_noop("The token has no scope. Hint: give one of %(scopes)s."),
    gettext_noop(
        "%(email)s may not give the scope %(scope)s. Hint: ask for %(scopes)s, or ask the "
        "project's staff for a role."
    ),
    gettext_noop(
        "The text is not a line of 1 to %(max)s printable characters. Hint: copy it from the site "
        "that asks for a proof."
    ),
    gettext_noop("A token's name has %(count)s characters. Hint: give 1 to %(max)s."),
)
#: Errors of forms that are translated here, because a package translates them in another tone.
FORM_ERRORS: Final = (
    gettext_noop("Enter a valid email address."),
    gettext_noop("Enter a valid URL."),
    gettext_noop("You must type the same password each time."),
)
