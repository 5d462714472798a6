from django.db import migrations

# Every account has one row of allauth's e-mail addresses.  Accounts of the staff were created by
# the operator, who knows their addresses; other addresses are confirmed by a mail.
INSERT = """
INSERT INTO account_emailaddress (user_id, email, verified, "primary")
SELECT
    account.id,
    account.email,
    account.is_staff,
    true
FROM account
WHERE NOT EXISTS (SELECT 1 FROM account_emailaddress AS known WHERE known.user_id = account.id)
"""


class Migration(migrations.Migration):

    dependencies = [
        ('account', '0009_emailaddress_unique_primary_email'),
        ('mfa', '0003_authenticator_type_uniq'),
        ('scheduler', '0026_email_change'),
    ]

    operations = [migrations.RunSQL(INSERT, migrations.RunSQL.noop)]
