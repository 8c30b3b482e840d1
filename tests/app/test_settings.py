"""Settings are taken from .env and the environment, or each that is wrong is told in a sentence."""

import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from app.settings import (
    DATA_FOLDER,
    Jwt,
    Settings,
    load_settings,
    named_fields,
    session_secret,
)
from schema.errors import ConfigurationError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory: secrets are kept below it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """No settings from outside, and none left behind: loading puts .env into the environment."""
    before = dict(os.environ)
    for name in before:
        if name.upper().startswith("FRONTDESK_"):
            del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(before)


def load(**settings: str) -> Settings:
    """Load with these settings in the environment."""
    os.environ.update({f"FRONTDESK_{name.upper()}": text for name, text in settings.items()})
    return load_settings()


def told(**settings: str) -> str:
    """Return what is said of settings that are wrong."""
    with pytest.raises(ConfigurationError) as caught:
        load(**settings)
    text = str(caught.value)
    assert text.startswith("E002: ")
    assert text.endswith(f". {FIX}")
    return text.removeprefix("E002: ").removesuffix(f". {FIX}")


FIX = "Correct the environment or .env; `frontdesk settings` explains every setting."
KEY = "k" * 32
KEYS_URL = "https://login.example/keys"


# --- secrets --------------------------------------------------------------------------------------


def _secret() -> str:
    return session_secret(Settings.model_construct(), warn=lambda _: None)


def test_a_secret_is_made_once_and_only_its_owner_reads_it(folder: Path) -> None:
    made = _secret()
    assert len(made) >= 32
    assert _secret() == made
    assert (folder / DATA_FOLDER / "secret").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (folder / DATA_FOLDER).iterdir()] == ["secret"]


@pytest.mark.parametrize("text", [b"", b"\n", b"short", b"\xff" * 40])
def test_a_secret_that_anybody_could_guess_signs_nothing(folder: Path, text: bytes) -> None:
    (folder / DATA_FOLDER).mkdir()
    (folder / DATA_FOLDER / "secret").write_bytes(text)
    with pytest.raises(ConfigurationError, match="secret"):
        _secret()


def test_a_folder_that_can_not_be_made_is_named(folder: Path) -> None:
    (folder / DATA_FOLDER).write_text("in the way")
    with pytest.raises(ConfigurationError, match="FRONTDESK_SESSION_SECRET"):
        _secret()


# --- values ---------------------------------------------------------------------------------------

HOST = (
    "must be a host name such as desk.example, *.desk.example or ::1, without scheme, port and path"
)
ORIGIN = "must be an origin such as https://app.example, without a path"
ONE_SITE = (
    "must name one site: * and null would let the pages of any site "
    "ask with the cookies of your users"
)
PATH = "must be a path such as /chat/, of letters, digits and . _ ~ - only"
PRIVATE = "must be an https:// address; http:// is for this machine only"
SHARED = "HS256, HS384, HS512"
PUBLISHED = "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA"
EITHER = "FRONTDESK_JWT__SECRET or FRONTDESK_JWT__JWKS_URL"
OBJECT = "must be a JSON object; or set its parts, such as FRONTDESK_JWT__SECRET"
MARGIN = "must not begin or end with white space"
CODE = "must be callable, or the dotted path of something that is"

WRONG: list[tuple[str, str, str]] = [
    *[
        ("url", text, PATH)
        for text in ("/a?b", "/a#b", "/{id}/", "/a b/", "/a/../b", "a\\b", "/%41/")
    ],
    ("enabled", "perhaps", "should be a valid boolean, unable to interpret input"),
    ("managers", "", "should have at least 1 character"),
    ("database_url", "", "should have at least 1 character"),
    ("session_secret", "fifteen chars..", "should have at least 16 characters"),
    ("session_secret", " " * 16, MARGIN),
    ("session_secret", "sixteen chars...\n", MARGIN),
    ("timezone", "Mars/Olympus", "must be an IANA time zone such as Europe/Berlin"),
    ("max_results", "0", "should be greater than or equal to 1"),
    ("max_results", "2147483648", "should be less than or equal to 2147483647"),
    ("max_results", "many", "should be a valid integer, unable to parse string as an integer"),
    ("max_results", "true", "should be a valid integer, unable to parse string as an integer"),
    ("max_mutations_per_message", "-1", "should be greater than or equal to 0"),
    ("max_total_rounds_per_message", "0", "should be greater than or equal to 1"),
    ("turn_timeout_seconds", "0", "should be greater than 0"),
    ("turn_timeout_seconds", "inf", "should be a finite number"),
    ("query_timeout_seconds", "nan", "should be a finite number"),
    ("run_stale_seconds", "1e9", "should be less than or equal to 31536000"),
    ("log_level", "loud", "should be 'debug', 'info', 'warning' or 'error'"),
    ("jwt", "secret", OBJECT),
    ("jwt", "[1]", OBJECT),
    ("jwt", "{}", f"needs {EITHER}"),
    ("jwt__issuer", "", "should have at least 1 character"),
    ("jwt__secret", "k" * 31, "should have at least 32 characters"),
    ("jwt__secret", f" {'k' * 31}", MARGIN),
    ("jwt__jwks_url", "http://login.example/keys", PRIVATE),
    ("jwt__jwks_url", "http://localhost.example/keys", PRIVATE),
    ("jwt__jwks_url", "http://localhost@login.example/keys", PRIVATE),
    ("jwt__jwks_url", "login.example/keys", PRIVATE),
    ("jwt__jwks_url", "https:///keys", PRIVATE),
    ("jwt__jwks_url", "file:///etc/keys", PRIVATE),
]
WRONG_ENTRIES = [
    *[("allowed_hosts", text, HOST) for text in ("https://a", "a:80", "a/b", "a b", "*.*", "a.*")],
    *[("allowed_hosts", text, HOST) for text in ("*a", "-a", "a..b", "[::1]:80", "fe80::1%eth0")],
    *[("allowed_origins", text, ONE_SITE) for text in ("*", "null", "https://*.app.example")],
    *[("allowed_origins", text, ORIGIN) for text in ("app.example", "ftp://a", "https://a/b")],
    *[("allowed_origins", text, ORIGIN) for text in ("https://u:p@a", "https://a:0", "https://a?")],
]
WRONG_JWTS = [
    (f"needs {EITHER}", {"jwt__audience": "shop"}),
    (f"takes {EITHER}, not both", {"jwt__secret": KEY, "jwt__jwks_url": KEYS_URL}),
    *[
        (
            f"__ALGORITHMS takes with a secret only {SHARED}",
            {"jwt__secret": KEY, "jwt__algorithms": text},
        )
        for text in ("none", "RS256", "HS256,ES256", "hs256", '["HS257"]')
    ],
    *[
        (
            f"__ALGORITHMS takes with published keys only {PUBLISHED}",
            {"jwt__jwks_url": KEYS_URL, "jwt__algorithms": text},
        )
        for text in ("none", "HS256", "RS256,HS256", "RS257")
    ],
    *[
        (
            f"__ALGORITHMS holds one that takes a secret of at least {least} characters",
            {"jwt__secret": "k" * (least - 1), "jwt__algorithms": text},
        )
        for text, least in (("HS384", 48), ("HS512", 64), ("HS256,HS512", 64))
    ],
]


@pytest.mark.parametrize(("name", "value", "sentence"), WRONG)
def test_a_wrong_value_is_told_in_a_sentence(name: str, value: str, sentence: str) -> None:
    assert told(**{name: value}) == f"FRONTDESK_{name.upper()} {sentence}"


@pytest.mark.parametrize(("name", "value", "sentence"), WRONG_ENTRIES)
def test_a_wrong_entry_of_a_list_is_told_by_its_number(
    name: str, value: str, sentence: str
) -> None:
    good = "https://good.example" if name == "allowed_origins" else "good.example"
    assert told(**{name: f"{good},{value}"}) == f"FRONTDESK_{name.upper()} entry 2 {sentence}"


@pytest.mark.parametrize(("sentence", "settings"), WRONG_JWTS)
def test_tokens_have_one_kind_of_key_and_algorithms_that_fit_it(
    sentence: str, settings: dict[str, str]
) -> None:
    space = "" if sentence.startswith("__") else " "
    assert told(**settings) == f"FRONTDESK_JWT{space}{sentence}"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"permission": 3}, f"FRONTDESK_PERMISSION {CODE}"),
        ({"identity": object()}, f"FRONTDESK_IDENTITY {CODE}"),
        ({"provider": None}, f"FRONTDESK_PROVIDER {CODE}"),
        (
            {"max_total_rounds_per_message": True},
            "FRONTDESK_MAX_TOTAL_ROUNDS_PER_MESSAGE must be a number",
        ),
        ({"turn_timeout_seconds": True}, "FRONTDESK_TURN_TIMEOUT_SECONDS must be a number"),
        (
            {"permision": print},
            "FRONTDESK_PERMISION is not a setting, the closest one is FRONTDESK_PERMISSION",
        ),
    ],
)
def test_what_python_gives_is_checked_as_well(overrides: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(**overrides)
    assert str(caught.value) == f"E002: {sentence}. {FIX}"


@pytest.mark.parametrize("name", named_fields())
@pytest.mark.parametrize(
    "value",
    ["hunter2", " hunter2?{*} ", '["hunter2?"]', '{"secret": "hunter2"}', "hunter2,hunter2?"],
)
def test_an_error_never_shows_a_value(name: str, value: str) -> None:
    try:
        load(**{name.removeprefix("FRONTDESK_"): value})
    except ConfigurationError as error:
        shown = "".join(traceback.format_exception(error))
        assert name.partition("__")[0] in shown
        assert "hunter2" not in shown


def test_what_is_printed_of_settings_holds_no_secret() -> None:
    settings = load(
        session_secret="hunter2-hunter2-hunter2",
        jwt__secret="hunter2-hunter2-hunter2-hunter2-hunter2",
        database_url="postgresql://shop:hunter2@db/shop",
    )
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("sqlite:///chat.db", "sqlite:///chat.db"),
        ("postgres://u:p@h/d", "postgresql+asyncpg://u:p@h/d"),
        ("postgresql://h/d?sslmode=require", "postgresql+asyncpg://h/d?ssl=require"),
        ("postgresql+asyncpg://h/d?a=1&sslmode=b", "postgresql+asyncpg://h/d?a=1&ssl=b"),
        ("postgresql+psycopg://h/d?sslmode=b", "postgresql+psycopg://h/d?sslmode=b"),
    ],
)
def test_a_server_may_be_named_in_any_of_the_usual_ways(given: str, url: str) -> None:
    assert load(database_url=given).chat_database_url == url


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ()),
        ("desk.example", ("desk.example",)),
        (" Desk.Example , *.Desk.example ,", ("desk.example", "*.desk.example")),
        ('["desk.example", "10.0.0.5"]', ("desk.example", "10.0.0.5")),
        ("[::1],::1,[2001:DB8::0:1]", ("::1", "2001:db8::1")),
        ("*", ("*",)),
        ("my_desk,desk,my_desk", ("my_desk", "desk")),
    ],
)
def test_hosts_are_a_list_in_one_form(text: str, hosts: tuple[str, ...]) -> None:
    assert load(allowed_hosts=text).allowed_hosts == hosts


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("https://App.example/", ("https://app.example",)),
        ("https://a:443,http://a:80,http://a:443", ("https://a", "http://a", "http://a:443")),
        ('["HTTP://[0::1]:8080", "https://a"]', ("http://[::1]:8080", "https://a")),
        ("https://a,https://A/,https://a:443", ("https://a",)),
    ],
)
def test_origins_are_a_list_in_one_form(text: str, origins: tuple[str, ...]) -> None:
    assert load(allowed_origins=text).allowed_origins == origins


def test_an_entry_that_is_no_text_is_told() -> None:
    assert (
        told(allowed_hosts='["a", 1]') == "FRONTDESK_ALLOWED_HOSTS entry 2 should be a valid string"
    )


@pytest.mark.parametrize(
    ("settings", "jwt", "allowed"),
    [
        ({"jwt__secret": KEY}, Jwt(secret=KEY), ("HS256",)),
        (
            {"jwt": f'{{"SECRET": "{KEY}"}}', "jwt__issuer": "me"},
            Jwt(secret=KEY, issuer="me"),
            ("HS256",),
        ),
        ({"jwt__jwks_url": KEYS_URL}, Jwt(jwks_url=KEYS_URL), ("RS256", "ES256")),
        (
            {"jwt__jwks_url": "http://[::1]:1/k"},
            Jwt(jwks_url="http://[::1]:1/k"),
            ("RS256", "ES256"),
        ),
        (
            {"jwt__secret": KEY * 2, "jwt__algorithms": "HS512, HS256"},
            Jwt(secret=KEY * 2, algorithms=("HS512", "HS256")),
            ("HS512", "HS256"),
        ),
        (
            {"jwt__jwks_url": KEYS_URL, "jwt__algorithms": '["EdDSA"]'},
            Jwt(jwks_url=KEYS_URL, algorithms=("EdDSA",)),
            ("EdDSA",),
        ),
    ],
)
def test_tokens_are_set_up_as_a_whole_or_part_by_part(
    settings: dict[str, str], jwt: Jwt, allowed: tuple[str, ...]
) -> None:
    loaded = load(**settings).jwt
    assert loaded is not None
    assert loaded == jwt
    assert loaded.allowed_algorithms == allowed


def test_values_are_taken_in_any_usual_form() -> None:
    settings = load(url="a//b.c", log_level="INFO", timezone="Asia/Tokyo", enabled="no")
    assert (settings.url, settings.log_level) == ("/a/b.c/", "info")
    assert (settings.timezone, settings.enabled) == (ZoneInfo("Asia/Tokyo"), False)
    assert load(url="/").url == "/"


# --- names ----------------------------------------------------------------------------------------


def unknown(name: str, closest: str) -> str:
    return f"FRONTDESK_{name} is not a setting, the closest one is FRONTDESK_{closest}"


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("MAX_RESLUTS", "MAX_RESULTS"),
        ("DATABASE", "DATABASE_URL"),
        ("ALLOWED_HOST", "ALLOWED_HOSTS"),
        ("ORIGINS", "ALLOWED_ORIGINS"),
        ("JWT_SECRET", "JWT__SECRET"),
        ("JWT__SECRT", "JWT__SECRET"),
        ("JWT__JWKS", "JWT__JWKS_URL"),
        ("URL__X", "URL"),
        ("max_reslts", "MAX_RESULTS"),
    ],
)
def test_an_unknown_name_is_told_with_the_closest_one(name: str, closest: str) -> None:
    os.environ["FRONTDESK_JWT__SECRET"] = KEY
    assert told(**{name: KEY}) == unknown(name.upper(), closest)


def test_all_that_is_wrong_is_told_at_once() -> None:
    problems = [
        unknown("COLOUR", "URL"),
        unknown("JWT__SECRT", "JWT__SECRET"),
        "FRONTDESK_MAX_RESULTS should be greater than or equal to 1",
        "FRONTDESK_TIMEZONE must be an IANA time zone such as Europe/Berlin",
    ]
    said = told(timezone="Mars", max_results="0", colour="red", jwt__secrt=KEY)
    assert sorted(said.split("; ")) == sorted(problems)


def test_a_key_of_a_nested_setting_that_is_unknown_is_told_as_its_own_name() -> None:
    assert told(jwt=f'{{"secrt": "{KEY}"}}') == unknown("JWT__SECRT", "JWT__SECRET")


def test_names_count_in_upper_and_in_lower_case() -> None:
    os.environ |= {"frontdesk_max_results": "7", "Frontdesk_Jwt__Secret": KEY}
    settings = load_settings()
    assert (settings.max_results, settings.jwt) == (7, Jwt(secret=KEY))


def test_what_kubernetes_says_of_a_service_is_no_setting() -> None:
    for service in ("FRONTDESK", "FRONTDESK_WEB"):
        os.environ |= {
            f"{service}_SERVICE_HOST": "10.0.0.1",
            f"{service}_SERVICE_PORT": "80",
            f"{service}_SERVICE_PORT_HTTP": "80",
            f"{service}_PORT": "tcp://10.0.0.1:80",
            f"{service}_PORT_80_TCP_ADDR": "10.0.0.1",
        }
    load_settings()
    del os.environ["FRONTDESK_SERVICE_HOST"]
    assert "FRONTDESK_PORT is not a setting" in told()


# --- .env -----------------------------------------------------------------------------------------


def test_env_file_fills_in_what_the_environment_does_not_set(folder: Path) -> None:
    (folder / ".env").write_text(
        "\ufeff# what the shop uses\n"
        "FRONTDESK_MAX_RESULTS=7\n"
        "export FRONTDESK_SYSTEM_PROMPT='Be brief # and kind'\n"
        "FRONTDESK_URL=/file/\n"
        "SHOP_KEY=${SHOP_PART}-2\n",
        "utf-8",
    )
    os.environ |= {"FRONTDESK_URL": "/environment/", "SHOP_PART": "part"}
    settings = load_settings(max_results=8)
    assert (settings.max_results, settings.url) == (8, "/environment/")
    assert settings.system_prompt == "Be brief # and kind"
    assert os.environ["SHOP_KEY"] == "part-2"


def test_env_file_does_not_override_a_name_in_another_case_nor_a_part_of_the_whole(
    folder: Path,
) -> None:
    other = "o" * 32
    (folder / ".env").write_text(f"FRONTDESK_URL=/file/\nFRONTDESK_JWT__SECRET={other}\n")
    os.environ |= {"frontdesk_url": "/environment/", "FRONTDESK_JWT": f'{{"secret": "{KEY}"}}'}
    settings = load_settings()
    assert (settings.url, settings.jwt) == ("/environment/", Jwt(secret=KEY))


def test_env_file_and_environment_may_each_give_parts_of_a_nested_setting(folder: Path) -> None:
    (folder / ".env").write_text("FRONTDESK_JWT__ISSUER=file\nFRONTDESK_JWT__AUDIENCE=file\n")
    jwt = load(jwt__secret=KEY, jwt__issuer="environment").jwt
    assert jwt == Jwt(secret=KEY, issuer="environment", audience="file")


def test_a_name_in_env_file_that_is_unknown_is_told(folder: Path) -> None:
    (folder / ".env").write_text("FRONTDESK_COLOUR=red\n")
    assert told(max_results="7") == unknown("COLOUR", "URL")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"A=1\n\n# b\n\nFRONTDESK_MAX_RESULTS: 7\n", "line 5 is not NAME=value"),
        (b"A='1\nB=2\n", "line 1 is not NAME=value"),
        (b"FRONTDESK_SYSTEM_PROMPT=caf\xe9\n", "it is not UTF-8"),
        (b"A=1\0", "embedded null byte"),
        (None, "Is a directory"),
    ],
)
def test_env_file_that_can_not_be_read_is_named(
    folder: Path, content: bytes | None, reason: str
) -> None:
    file = folder / ".env"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    assert str(caught.value) == (
        f"E002: {file} can't be read: {reason}. Correct the file, or take it away."
    )


def test_settings_made_in_python_do_not_read_env_file(folder: Path) -> None:
    (folder / ".env").write_text("FRONTDESK_MAX_RESULTS=7\nFRONTDESK_COLOUR=red\n")
    assert Settings().max_results == 200
    with pytest.raises(ValidationError, match="permision"):
        Settings.model_validate({"permision": print})
