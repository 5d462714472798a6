"""Environment readers: accepted values, and errors for invalid values."""

from __future__ import annotations

from datetime import timedelta

import pytest

from project import env, keys
from scheduler.config import LoginProvider, MailConfig, MailSecurity, StoreConfig

NAME = "MANYHANDS_TEST"


@pytest.fixture
def given(monkeypatch):
    def set_value(value):
        monkeypatch.setenv(NAME, value)

    return set_value


@pytest.mark.parametrize("blank", ["", "  "])
def test_blank_variable_means_the_default(given, blank):
    given(blank)
    assert env.text(NAME, "default") == "default"
    assert env.boolean(NAME, default=True) is True
    assert env.integer(NAME, 7) == 7
    assert env.words(NAME, ["a"]) == ["a"]
    assert env.database_url(NAME) is None


@pytest.mark.parametrize(
    ("said", "meant"),
    [("1", True), ("True", True), ("YES", True), ("off", False), ("0", False), ("no", False)],
)
def test_boolean_is_read_in_its_usual_spellings(given, said, meant):
    given(said)
    assert env.boolean(NAME, default=not meant) is meant


@pytest.mark.parametrize("said", ["maybe", "2", "tru", "enabled!"])
def test_other_spellings_of_a_boolean_are_refused(given, said):
    given(said)
    with pytest.raises(env.BadSetting, match=rf"{NAME}='{said}' cannot be used: expected true"):
        env.boolean(NAME, default=False)


@pytest.mark.parametrize("said", ["x", "1.5", "-1", "11", "1e3", "9" * 30, "٣"])
def test_number_out_of_bounds_or_invalid_number_is_refused(given, said):
    given(said)
    with pytest.raises(env.BadSetting, match="a whole number from 0 to 10"):
        env.integer(NAME, 1, at_least=0, at_most=10)


def test_unknown_choice_is_refused_with_the_accepted_values(given):
    given("yaml")
    with pytest.raises(
        env.BadSetting, match=f"{NAME}='yaml' cannot be used: expected json or text"
    ):
        env.choice(NAME, "text", among={"text", "json"})


def test_invalid_regular_expression_is_refused_when_it_is_read(given):
    given(" Windows (XP|7) ")
    assert env.pattern(NAME) == "Windows (XP|7)"
    given("Windows (XP")
    with pytest.raises(env.BadSetting, match="expected a regular expression"):
        env.pattern(NAME)


@pytest.mark.parametrize("said", ["http://a.b", "http://a.b/", "http://a.b///"])
def test_a_web_address_ends_with_one_slash(given, said):
    given(said)
    assert env.web_url(NAME, "") == "http://a.b/"


@pytest.mark.parametrize(
    "said",
    [
        "a.b",
        "ftp://a.b/",
        "http://",
        "http:///x",
        "http://a.b:port/",
        "http://a.b:99999/",
        "http://[::1/",
        "http://a.b/?q=1",
        "http://a.b/#f",
        "http://a b/",
        'http://a.b/"><x',
    ],
)
def test_invalid_web_address_is_refused(given, said):
    given(said)
    with pytest.raises(env.BadSetting, match="expected an address such as http"):
        env.web_url(NAME, "")


def test_file_in_place_of_a_folder_is_refused(given, tmp_path):
    (tmp_path / "file").touch()
    given(str(tmp_path / "file"))
    with pytest.raises(env.BadSetting, match="expected a folder, and this is a file"):
        env.folder(NAME, tmp_path)


def test_database_address_is_read_with_escapes_and_options(given):
    given("postgresql://a%40b:p%2Fw%3A@db.example:5433/many%20hands?sslmode=require")
    assert env.database_url(NAME) == {
        "USER": "a@b",
        "PASSWORD": "p/w:",
        "HOST": "db.example",
        "PORT": "5433",
        "NAME": "many hands",
        "OPTIONS": {"sslmode": "require"},
    }


def test_database_address_can_name_a_socket(given):
    given("postgres://ada@/manyhands?host=/run/postgresql&connect_timeout=3")
    assert env.database_url(NAME) == {
        "USER": "ada",
        "HOST": "/run/postgresql",
        "NAME": "manyhands",
        "OPTIONS": {"connect_timeout": "3"},
    }


@pytest.mark.parametrize(
    ("said", "because"),
    [
        ("mysql://u:secret@h/x", "expected an address such as postgresql://"),
        ("host=h dbname=x password=secret", "expected an address such as postgresql://"),
        ("postgresql://u:secret@h", "expected the name of a database"),
        ("postgresql://u:secret@h/x?colour=red", "colour"),
    ],
)
def test_refusal_of_a_database_address_does_not_show_its_password(given, said, because):
    given(said)
    with pytest.raises(env.BadSetting) as refusal:
        env.database_url(NAME)
    assert because in str(refusal.value)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("said", ["redis", "http://broker/", "localhost:6379"])
def test_invalid_broker_address_is_refused(given, said):
    given(said)
    with pytest.raises(env.BadSetting, match="redis://host:6379/0 or amqp://host//"):
        env.broker_url(NAME, "")


def test_secret_key_is_created_once_and_readable_by_its_owner_only(tmp_path):
    folder = tmp_path / "var" / "keys"
    made = keys.secret_key(folder)
    assert len(made) >= 50
    assert keys.secret_key(folder) == made
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "secret_key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["secret_key"]


def test_concurrent_callers_get_the_same_secret_key(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(16) as threads:
        made = set(threads.map(lambda _: keys.secret_key(tmp_path / "keys"), range(64)))
    assert len(made) == 1


def test_empty_secret_key_file_is_replaced(tmp_path):
    (tmp_path / "secret_key").touch()
    assert len(keys.secret_key(tmp_path)) >= 50


def test_blank_store_address_means_the_local_disk(given):
    given("  ")
    assert env.store_url(NAME) is None


def test_store_address_is_read_with_its_options(given):
    given("s3://my-bucket")
    assert env.store_url(NAME) == StoreConfig(bucket="my-bucket")
    given(
        "s3://my.bucket/a/prefix/?endpoint=http://10.0.0.7:9000&public=https://files.example.org"
        "&region=eu-west-1&downloads=stream&new=disk&expires=600"
    )
    assert env.store_url(NAME) == StoreConfig(
        bucket="my.bucket",
        prefix="a/prefix",
        endpoint="http://10.0.0.7:9000",
        public="https://files.example.org",
        region="eu-west-1",
        redirects=False,
        writes=False,
        expires=timedelta(minutes=10),
    )


@pytest.mark.parametrize(
    ("said", "accepted"),
    [
        ("https://bucket.example.org", r"s3://bucket/prefix"),
        ("s3://", r"s3://bucket/prefix"),
        ("s3://UPPER", r"s3://bucket/prefix"),
        ("s3://bucket/../other", "prefix of letters"),
        ("s3://bucket?endpoint=example.org", "as endpoint"),
        ("s3://bucket?public=ftp://example.org", "as public"),
        ("s3://bucket?downloads=maybe", "redirect or stream as downloads"),
        ("s3://bucket?new=s3", "store or disk as new"),
        ("s3://bucket?expires=5", "60 to 604800 seconds"),
        ("s3://bucket?expires=soon", "60 to 604800 seconds"),
        ("s3://bucket?colour=red", "no option colour: there are endpoint, public"),
    ],
)
def test_invalid_store_address_is_refused_with_the_accepted_form(given, said, accepted):
    given(said)
    with pytest.raises(env.BadSetting, match=accepted):
        env.store_url(NAME)


def test_error_does_not_show_a_key_in_the_address_of_a_store(given):
    given("s3://key:secret@bucket")
    with pytest.raises(env.BadSetting) as refused:
        env.store_url(NAME)
    assert "secret" not in str(refused.value)


# Mail and alerts


@pytest.mark.parametrize(
    ("url", "config"),
    [
        (
            "smtp://mail%40p:ge%3Aheim@mail.example.org",
            MailConfig(host="mail.example.org", port=587, user="mail@p", password="ge:heim"),
        ),
        (
            "smtps://mail:geheim@mail.example.org/",
            MailConfig(
                host="mail.example.org",
                port=465,
                user="mail",
                password="geheim",
                security=MailSecurity.IMPLICIT,
            ),
        ),
        (
            "smtp://[::1]:2525/?tls=none",
            MailConfig(host="::1", port=2525, security=MailSecurity.NONE),
        ),
        (
            "smtp://relay/?tls=none",
            MailConfig(host="relay", port=25, security=MailSecurity.NONE),
        ),
    ],
)
def test_a_mail_server_is_read_from_its_url(given, url, config):
    given(url)
    assert env.mail_url(NAME) == config


@pytest.mark.parametrize(
    "url",
    [
        *(
            "mail.example.org",
            "smtp://",
            "smtp://mail.example.org/path",
            "smtp://m:0",
            "smtp://a b",
        ),
        *("smtp://m/?tls=maybe", "smtp://m/?tls=none&x=1", "smtp://m/#x", "smtp://m:x"),
        "smtp://mail:geheim@mail.example.org/?tls=none",
        *("smtps://mail.example.org/?tls=none", "smtps://localhost/?tls=starttls"),
    ],
)
def test_an_invalid_mail_server_is_refused(given, url):
    given(url)
    with pytest.raises(env.BadSetting, match="cannot be used"):
        env.mail_url(NAME)


def test_without_a_url_there_is_no_mail_server(given):
    given("")
    assert env.mail_url(NAME) is None


def test_mail_addresses_are_read_and_checked(given):
    given("op@example.org, eve@example.org")
    assert env.mail_addresses(NAME) == ("op@example.org", "eve@example.org")
    given("op@example.org, eve")
    with pytest.raises(env.BadSetting, match="eve"):
        env.mail_addresses(NAME)


def test_the_sender_of_mail_is_by_default_on_the_host_of_the_project(given):
    given("")
    assert env.mail_sender(NAME, host="p.example.org") == "noreply@p.example.org"
    assert env.mail_sender(NAME, host="::1") == "noreply@localhost"
    given("Project <p@example.org>")
    with pytest.raises(env.BadSetting):
        env.mail_sender(NAME, host="p.example.org")


def test_a_webhook_without_encryption_needs_a_host_of_the_list(given):
    given("https://hooks.example.org/x?y=1")
    assert env.webhook_url(NAME, private_hosts=()) == "https://hooks.example.org/x?y=1"
    given("http://hooks.internal/x")
    assert env.webhook_url(NAME, private_hosts=("hooks.internal",)) == "http://hooks.internal/x"
    with pytest.raises(env.BadSetting):
        env.webhook_url(NAME, private_hosts=())
    given("")
    assert env.webhook_url(NAME, private_hosts=()) == ""


LAB = """
[lab]
name = "The Lab"
server = "https://id.example/realm/.well-known/openid-configuration"
client_id = "manyhands"
client_secret = "17"
"""


@pytest.fixture
def given_file(given, tmp_path):
    """Set the variable to the path of a file with this content."""

    def set_content(content):
        path = tmp_path / "file.toml"
        path.write_text(content)
        given(str(path))

    return set_content


def test_no_log_in_provider_is_the_default(given):
    given("")
    assert env.login_providers(NAME) == ()


def test_log_in_providers_are_read_from_a_file_and_do_not_show_their_secret(given_file):
    given_file(LAB + 'origins = ["https://login.example/"]\n')
    [lab] = env.login_providers(NAME)
    assert lab == LoginProvider(
        id="lab",
        name="The Lab",
        server="https://id.example/realm",
        client_id="manyhands",
        client_secret="17",
        origins=("https://login.example",),
    )
    assert "17" not in repr(lab)


@pytest.mark.parametrize(
    "content",
    [
        "x",
        "x = 1",
        "[Lab]",
        "[lab]",
        LAB + "other = 1",
        LAB + 'origins = "https://login.example/"',
        LAB + "origins = [1]",
        LAB + 'origins = ["http://login.example/"]',
        LAB.replace("https", "http"),
        LAB.replace("https://id.example/realm/", "id.example/"),
        LAB.replace('"17"', "17"),
        LAB.replace('"17"', '""'),
    ],
)
def test_incomplete_log_in_provider_is_refused_without_its_secret(given_file, content):
    given_file(content)
    with pytest.raises(env.BadSetting) as refused:
        env.login_providers(NAME)
    assert "17" not in str(refused.value)


def test_missing_file_of_log_in_providers_is_refused(given):
    given("/nowhere/providers.toml")
    with pytest.raises(env.BadSetting, match="a file that can be read"):
        env.login_providers(NAME)
