"""The admin pages of throttle buckets, known networks and invitations."""

from __future__ import annotations

from django.contrib import admin

from scheduler.admin.base import RecordAdmin
from scheduler.admin.site import staff
from scheduler.models import Invitation, LoginNetwork, ThrottleBucket


@admin.register(ThrottleBucket, site=staff)
class ThrottleBucketAdmin(RecordAdmin):
    """Limits in use; networks and accounts appear as keyed hashes."""

    list_display = ("key", "empty_at", "was_allowed", "recorded_at")
    list_filter = ("was_allowed",)
    search_fields = ("key",)


@admin.register(LoginNetwork, site=staff)
class LoginNetworkAdmin(RecordAdmin):
    """Networks from which accounts logged in."""

    list_display = ("account", "network", "last_login_at")
    list_select_related = ("account",)
    search_fields = ("account__email", "network")
    search_numbers = ("account_id",)


@admin.register(Invitation, site=staff)
class InvitationAdmin(RecordAdmin):
    """Invitations by name; codes are shown once, by `manage.py invitation make`."""

    list_display = ("name", "uses", "max_uses", "created_at", "expire_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    search_fields = ("name",)
    fields = ("name", "uses", "max_uses", "created_at", "expire_at", "revoked_at")
