"""Creates and changes teams, their members and their founders.

Theory of operation.  An operation locks the rows of its accounts, in ascending id, before the row
of the team.  A team has one founder, who is a member.  A founder leaves only as the last active
member, or after the foundership was transferred.  If the account of a founder is erased, the member
who has requested the foundership gets it, else the active member with the oldest account.  A team
without active members has no founder; a request for its foundership is granted at once.  A founder
who is the only active member can delete the team; staff can delete every team.  Whether an
account is active is checked after its lock, because it may be blocked while an operation waits.

A member may request the foundership.  The founder transfers it or declines.  Without an answer, the
member may assume it after `ANSWER_WITHIN` (`people.rules`), for example if the founder is no longer
active.

A founder can name members as administrators, who change the team, see all active members, and
remove members, but not the founder and other administrators.  An administrator who leaves the team
is no longer one, by the same transaction.  A row of an administrator is written while the account
is locked, and inserted while the team is locked, too.

Staff can create teams without a founder, change the fields of `TeamProfile` and the founder, who
must be an active member, and move accounts; an account that is moved leaves its team by the rules
of `leave`.
"""

from __future__ import annotations

from scheduler.people.teams.administrators import dismiss_administrator as dismiss_administrator
from scheduler.people.teams.administrators import name_administrator as name_administrator
from scheduler.people.teams.administrators import resign as resign
from scheduler.people.teams.deletion import delete as delete
from scheduler.people.teams.deletion import delete_as_staff as delete_as_staff
from scheduler.people.teams.foundership import assume_foundership as assume_foundership
from scheduler.people.teams.foundership import decline_request as decline_request
from scheduler.people.teams.foundership import hand_over as hand_over
from scheduler.people.teams.foundership import request_foundership as request_foundership
from scheduler.people.teams.foundership import successors as successors
from scheduler.people.teams.foundership import transfer as transfer
from scheduler.people.teams.locked_rows import lock_accounts as lock_accounts
from scheduler.people.teams.members import change as change
from scheduler.people.teams.members import create as create
from scheduler.people.teams.members import join as join
from scheduler.people.teams.members import leave as leave
from scheduler.people.teams.members import remove_member as remove_member
from scheduler.people.teams.staff_changes import change_as_staff as change_as_staff
from scheduler.people.teams.staff_changes import check_founder as check_founder
from scheduler.people.teams.staff_changes import check_move as check_move
from scheduler.people.teams.staff_changes import create_as_staff as create_as_staff
from scheduler.people.teams.staff_changes import move_as_staff as move_as_staff
from scheduler.people.teams.staff_changes import set_founder_as_staff as set_founder_as_staff
from scheduler.people.teams.team_profiles import TeamProfile as TeamProfile
from scheduler.people.teams.team_refusals import InactiveAccount as InactiveAccount
from scheduler.people.teams.team_refusals import NotFounder as NotFounder
from scheduler.people.teams.team_refusals import NotMember as NotMember
from scheduler.people.teams.team_refusals import SuccessorChanged as SuccessorChanged
from scheduler.people.teams.team_refusals import TakenName as TakenName
from scheduler.people.teams.team_refusals import TeamRefused as TeamRefused
from scheduler.people.teams.team_refusals import UnknownTeam as UnknownTeam
