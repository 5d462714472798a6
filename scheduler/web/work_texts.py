"""Lists texts of other packages about work for computers, for `web.texts`.

These are the steps of a result, the reasons why work was refused, and the messages to clients.
They have BOINC's wording in English, because clients show them, too.
"""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop

#: Values with these names are decimal numbers, which are shown in the visitor's format.
AMOUNTS: Final = frozenset({"available", "missing", "share", "wanted"})
#: Texts without values.
TEXTS: Final = (
    # The timeline of a result
    gettext_noop("Sent to this computer."),
    gettext_noop("Sent to this computer again, because it had lost the result."),
    gettext_noop("Reported: the program finished without an error."),
    gettext_noop("Reported: the program failed or was aborted."),
    gettext_noop("Reported after the deadline: the program finished without an error."),
    gettext_noop("Reported after the deadline: the program failed or was aborted."),
    gettext_noop(
        "Given up: the computer was detached from the project, or the project was reset on it."
    ),
    gettext_noop("Given up: the deadline passed without a report."),
    gettext_noop("Given up: the computer did not confirm that it has the result."),
    gettext_noop("Not sent: the workunit has an answer."),
    gettext_noop("Not sent: the workunit ended without an answer."),
    gettext_noop("Not sent: no computer could get it."),
    gettext_noop("Refused: an output file was missing or unreadable."),
    gettext_noop("Not valid, because the program did not finish."),
    gettext_noop("Compared with results of other computers: too few of them agree."),
    gettext_noop("Found valid: the output agrees with the accepted answer."),
    gettext_noop("Found invalid: the output disagrees with the accepted answer."),
    gettext_noop("Found invalid: an output file was missing or unreadable."),
    gettext_noop("Not validated, because the workunit ended without an answer."),
    gettext_noop("To be validated again, as the project's staff requested."),
    gettext_noop(
        "Not validated: the report arrived after the files for the comparison were deleted."
    ),
    gettext_noop("Ended."),
    gettext_noop("The state of the result changed."),
    # Why work of the project waits
    gettext_noop("no app version for the platform"),
    gettext_noop("unsuitable for the plan class"),
    gettext_noop("the workunit is committed to another kind of computer"),
    gettext_noop("the class of the computer is unknown"),
    gettext_noop("too little memory"),
    gettext_noop("too little disk space"),
    gettext_noop("too little bandwidth"),
    gettext_noop("too few CPUs"),
    gettext_noop("too few GPUs"),
    gettext_noop("unknown"),
    gettext_noop("The project has ended: no work is sent."),
    gettext_noop("The project is shut down for maintenance: no work is sent."),
    gettext_noop("Project is temporarily shut down for maintenance"),
    gettext_noop(
        "This project has ended and sends no more work. You may remove it from your client"
    ),
    # Why a computer was refused work
    gettext_noop("No tasks are available for the applications you have selected."),
    gettext_noop("Your preferences do not allow test applications."),
    gettext_noop("Your keyword preferences exclude these tasks."),
    gettext_noop("Tasks are committed to other platforms"),
    gettext_noop("Your computer type is not supported by this project"),
    gettext_noop("This computer has reached a limit on tasks in progress"),
    gettext_noop("This computer has reached a limit on the output files of its tasks in progress"),
    gettext_noop("A newer BOINC may be required for some tasks."),
    gettext_noop("An older BOINC is required for some tasks."),
    gettext_noop("BOINC client 7.0+ required for Virtualbox jobs"),
    gettext_noop("VirtualBox is not installed"),
    gettext_noop("VirtualBox is not usable"),
    gettext_noop(
        "Hardware acceleration of virtual machines is missing or switched off in the BIOS."
    ),
    gettext_noop("No WSL distros found"),
    gettext_noop("No usable WSL distros found"),
    gettext_noop("Docker not present"),
    gettext_noop("Docker jobs need 8.2.6+ client"),
    gettext_noop("Upgrade to the latest driver to process tasks using your computer's GPU"),
    gettext_noop("App version needs CUDA but GPU doesn't support it"),
    gettext_noop("App version needs OpenCL but GPU doesn't support it"),
    gettext_noop("Install AMD's ROCm to process tasks using your computer's GPU"),
    gettext_noop("Your GPU is too slow for these tasks."),
    gettext_noop("Your GPU is needed for other tasks."),
    gettext_noop("Your GPU's CUDA version is too new for these tasks."),
    gettext_noop("Your GPU's compute capability is too new for these tasks."),
    gettext_noop("Your GPU's OpenCL version is too new for these tasks."),
    gettext_noop("Your GPU's driver is too new for these tasks."),
    gettext_noop("These tasks are not for your operating system (unknown)."),
    gettext_noop("These tasks are not for your processor's vendor (unknown)."),
    gettext_noop("These tasks are not for your processor's model (unknown)."),
    gettext_noop("These tasks are not for your GPU's model (unknown)."),
    gettext_noop("These tasks are not for your OpenCL driver (unknown)."),
    # Messages to clients
    gettext_noop("Tasks are being handed out; this request is too recent, ask again soon"),
    gettext_noop("No tasks sent"),
    gettext_noop("Project has no tasks available"),
    gettext_noop(
        "The computing preferences stored in your account cannot be read. Save new ones on the "
        "project's web site."
    ),
    gettext_noop(
        "The project preferences stored in your account cannot be read. Save new ones on the "
        "project's web site."
    ),
)
#: Texts with values.
PATTERNS: Final = (
    # Why a computer was refused work
    gettext_noop("Tasks of %(app)s are currently reserved for fast, reliable computers"),
    gettext_noop("Your app_info.xml file doesn't have a usable version of %(app)s."),
    gettext_noop("%(app)s needs %(wanted)s MB RAM but only %(available)s MB is available for use."),
    gettext_noop(
        "%(app)s needs %(missing)sMB more disk space.  You currently have %(available)s MB "
        "available and it needs %(wanted)s MB."
    ),
    gettext_noop(
        "%(app)s needs %(wanted)s kB/sec of download bandwidth, but only %(available)s kB/sec was "
        "measured."
    ),
    gettext_noop(
        "Tasks won't finish in time: BOINC computes %(share)s of the time and %(seconds)s seconds "
        "are queued."
    ),
    gettext_noop("A task list won't finish in time: %(seconds)s seconds are queued."),
    gettext_noop("This computer has reached a limit on tasks in progress for %(app)s"),
    gettext_noop("This computer has finished a daily quota of %(count)s tasks"),
    gettext_noop("%(app)s needs %(wanted)s CPUs but only %(available)s are available for use."),
    gettext_noop("%(app)s needs %(wanted)s GPUs but only %(available)s are available for use."),
    gettext_noop("A new version of %(app)s is sent to some computers first, and not to yours yet."),
    gettext_noop("%(app)s is not available for your type of computer."),
    gettext_noop("No tasks of %(app)s are available for the requested devices"),
    gettext_noop("No %(kind)s GPUs found"),
    gettext_noop("Your processor lacks %(features)s."),
    gettext_noop("Your computer's C library is older than %(version)s."),
    gettext_noop("%(wanted)s CPUs are needed, but only %(available)s are available for use."),
    gettext_noop("%(wanted)s MB RAM is needed but only %(available)s MB is available for use."),
    gettext_noop("VirtualBox %(version)s does not suit these tasks; install another version."),
    gettext_noop("%(wanted)s %(kind)s GPUs are needed, but there are %(available)s."),
    gettext_noop("Your GPU's compute capability %(version)s is below %(minimum)s."),
    gettext_noop(
        "A minimum of %(wanted)s MB of video RAM is needed to process tasks using your computer's "
        "%(kind)s GPU"
    ),
    gettext_noop("These tasks are not for your operating system (%(value)s)."),
    gettext_noop("These tasks are not for your processor's vendor (%(value)s)."),
    gettext_noop("These tasks are not for your processor's model (%(value)s)."),
    gettext_noop("These tasks are not for your GPU's model (%(value)s)."),
    gettext_noop("These tasks are not for your OpenCL driver (%(value)s)."),
    # Messages to clients
    gettext_noop("Queue %(queue)s is stopped"),
    gettext_noop("Queue %(queue)s is disabled until %(time)s UTC"),
    gettext_noop("Queue %(queue)s does not serve this computer"),
    gettext_noop("This client's settings exclude work of queue %(queue)s"),
    gettext_noop("Queue %(queue)s has reached its limit of %(count)s tasks in progress"),
    gettext_noop("Queue %(queue)s sends no more tasks at once"),
    gettext_noop("Resent lost task %(result)s"),
    gettext_noop("Didn't resend lost task %(result)s (expired)"),
    gettext_noop("%(project)s doesn't support computers of type %(kind)s"),
)
