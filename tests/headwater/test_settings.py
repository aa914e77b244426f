"""Settings: what a person writes is either taken exactly, or refused with its name, its origin and the nearest name.

And in no case, on no way out, is a password shown.
"""

from __future__ import annotations

import json
import pickle
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.addresses import ConnectAddress, KafkaAddress, PostgresAddress
from cdc.errors import ConfigurationError
from headwater.settings import Settings, load, load_with_origins
from headwater.settings.describe import effective, markdown
from headwater.settings.fields import fields
from headwater.settings.runtime import SparkSettings
from headwater.settings.secrets import SecretUrl, masked_url

SECRET = "s3cr3t-Pa55"
PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str, name: str = "headwater.toml") -> Path:
    file = Path(name).absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def refusal(**environ: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load(environ=environ)
    return caught.value


# Where values come from


def test_defaults_need_nothing() -> None:
    settings = load(environ={})
    assert settings.source == "demo"
    assert settings.tables == ("public.*",)
    assert settings.data_folder == Path.cwd() / ".headwater"
    sections = (settings.postgres, settings.kafka, settings.connect, settings.elasticsearch, settings.redis)
    assert all(section.embedded for section in sections)
    assert settings.postgres.address() is settings.kafka.address() is settings.connect.address() is None
    assert settings.capture_address() is None


def test_the_environment_wins_over_the_file_and_the_file_over_the_default() -> None:
    write('source = "shop"\n[http]\nport = 9000\nhost = "0.0.0.0"\n')
    loaded = load_with_origins(environ={"HEADWATER_HTTP__PORT": "9001"})
    assert (loaded.settings.source, loaded.settings.http.port, loaded.settings.http.host) == ("shop", 9001, "0.0.0.0")
    origins = {setting.name: setting.origin for setting in effective(loaded)}
    assert origins["source"] == origins["http.host"] == "file"
    assert origins["http.port"] == "HEADWATER_HTTP__PORT"
    assert origins["kafka.bootstrap"] == "default"


def test_a_file_can_be_named_and_must_then_be_there() -> None:
    elsewhere = write('source = "other"', "etc/mine.toml")
    assert load(elsewhere, environ={}).source == "other"
    assert load(environ={"HEADWATER_CONFIG": str(elsewhere)}).source == "other"
    with pytest.raises(ConfigurationError, match="no settings file at"):
        load(Path("missing.toml"), environ={})


def test_paths_in_the_file_are_relative_to_the_file_and_in_the_environment_to_here() -> None:
    file = write('data_folder = "data"\n[redis]\nurl = "rediss://h"\nca_file = "ca.pem"\n', "etc/mine.toml")
    settings = load(file, environ={})
    assert settings.data_folder == file.parent / "data"
    assert settings.redis.ca_file == str(file.parent / "ca.pem")
    assert load(file, environ={"HEADWATER_DATA_FOLDER": "here"}).data_folder == Path.cwd() / "here"
    assert load(write("", "etc/empty.toml"), environ={}).data_folder == file.parent / ".headwater"


def test_an_empty_variable_counts_as_not_set() -> None:
    write("[http]\nport = 9000\n")
    assert load(environ={"HEADWATER_HTTP__PORT": ""}).http.port == 9000


def test_lists_and_tables_in_the_environment() -> None:
    settings = load(environ={"HEADWATER_TABLES": "public.*, shop.orders", "HEADWATER_SPARK__CONF": '{"spark.a": 1}'})
    assert settings.tables == ("public.*", "shop.orders")
    assert settings.spark.properties() == {"spark.a": "1"}


def test_spark_properties_may_be_written_dotted_or_quoted() -> None:
    write('[spark.conf]\nspark.sql.ansi.enabled = true\n"spark.ui.port" = 4050\n')
    assert load(environ={}).spark.properties() == {"spark.sql.ansi.enabled": "true", "spark.ui.port": "4050"}
    assert isinstance(SparkSettings(), SparkSettings)


# Addresses


def test_a_postgres_url_becomes_an_address() -> None:
    url = "postgresql://ann%40x:p%2Fw@db.example.com:6543/shop?sslmode=require"
    settings = load(environ={"HEADWATER_POSTGRES__URL": url, "HEADWATER_POSTGRES__SSLROOTCERT": "system"})
    options = (("sslmode", "require"), ("sslrootcert", "system"))
    assert settings.postgres.address() == PostgresAddress("db.example.com", 6543, "shop", "ann@x", "p/w", options)


def test_the_password_may_come_beside_the_url_but_nothing_twice() -> None:
    url = {"HEADWATER_POSTGRES__URL": "postgresql://ann@h/shop"}
    address = load(environ={**url, "HEADWATER_POSTGRES__PASSWORD": SECRET}).postgres.address()
    assert address == PostgresAddress("h", 5432, "shop", "ann", SECRET)
    error = refusal(**url, HEADWATER_POSTGRES__USER="bob")
    assert error.fact == "postgres.user is given twice: in postgres.url and by itself"


def test_postgres_from_its_parts() -> None:
    write('[postgres]\nhost = "h"\ndatabase = "d"\nuser = "u"\nsslmode = "verify-full"\nsslcert = "/c"\n')
    options = (("sslmode", "verify-full"), ("sslcert", "/c"))
    assert load(environ={}).postgres.address() == PostgresAddress("h", 5432, "d", "u", "", options)


def test_an_ipv6_host_stays_usable() -> None:
    address = load(environ={"HEADWATER_POSTGRES__URL": "postgresql://u@[::1]:5433/d"}).postgres.address()
    assert address is not None
    assert address.conninfo() == "postgresql://u@[::1]:5433/d"


def test_debezium_gets_its_own_role_at_the_address_that_connect_sees() -> None:
    write('[postgres]\nurl = "postgresql://u:p@h/d"\ncapture_user = "cap"\n[connect]\npostgres_host = "db"\n')
    settings = load(environ={"HEADWATER_POSTGRES__CAPTURE_PASSWORD": SECRET, "HEADWATER_CONNECT__POSTGRES_PORT": "1"})
    assert settings.capture_address() == PostgresAddress("db", 1, "d", "cap", SECRET)
    assert settings.postgres.address() == PostgresAddress("h", 5432, "d", "u", "p")


def test_kafka_security_in_the_words_of_its_client() -> None:
    write(
        '[kafka]\nbootstrap = "a:9092, b:9092"\nsecurity_protocol = "SASL_SSL"\nsasl_username = "u"\nssl_ca = "/ca"\n'
    )
    address = load(environ={"HEADWATER_KAFKA__SASL_PASSWORD": SECRET}).kafka.address()
    assert isinstance(address, KafkaAddress)
    assert address.client() == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": SECRET,
        "ssl.ca.location": "/ca",
    }


def test_connect_at_an_address() -> None:
    environ = {"HEADWATER_CONNECT__URL": "https://c:8083/", "HEADWATER_CONNECT__USER": "u"}
    address = load(environ={**environ, "HEADWATER_CONNECT__PASSWORD": SECRET}).connect.address()
    assert address == ConnectAddress("https://c:8083", "u", SECRET, "")


# Refusals


@pytest.mark.parametrize(
    ("text", "fact", "hint"),
    [
        ("[kafka]\nbootsrap = 'x'", "unknown setting kafka.bootsrap", "did you mean kafka.bootstrap?"),
        ("[kafak]\nbootstrap = 'x'", "unknown setting kafak", "did you mean kafka?"),
        ("bootstrap = 'x'", "unknown setting bootstrap", "did you mean kafka.bootstrap?"),
        ("zzzz = 1", "unknown setting zzzz", "headwater config docs lists every setting"),
        ("kafka = 'h:1'", "kafka is a section, and was given a single value", "write [kafka], its settings below"),
    ],
)
def test_an_unknown_key_of_the_file_is_refused_with_the_nearest_name(text: str, fact: str, hint: str) -> None:
    file = write(text)
    error = refusal()
    assert (error.fact, error.detail, error.hint) == (fact, f"from {file}", hint)


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("HEADWATER_KAFKA__BOOTSRAP", "did you mean HEADWATER_KAFKA__BOOTSTRAP?"),
        ("HEADWATER_KAFKA_BOOTSTRAP", "did you mean HEADWATER_KAFKA__BOOTSTRAP?"),
        ("HEADWATER_KAFKA", "write for example HEADWATER_KAFKA__BOOTSTRAP"),
        ("HEADWATER_FOO", "headwater config docs lists every setting"),
        ("HEADWATER_SPARK__CONF__X", "did you mean HEADWATER_SPARK__CONF?"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_name(variable: str, hint: str) -> None:
    error = refusal(**{variable: "x"})
    assert variable in error.fact + error.detail
    assert error.hint == hint


def test_variables_that_are_not_settings_are_left_alone() -> None:
    load(environ={"HEADWATER_DEBUG": "1", "HEADWATER_TEST_POSTGRES": "x", "HEADWATERS": "y"})


def test_a_wrong_type_names_the_setting_where_it_comes_from_and_what_is_expected() -> None:
    error = refusal(HEADWATER_HTTP__PORT="abc")
    assert error.fact == "setting http.port is not valid"
    assert "valid integer" in error.detail
    assert error.detail.endswith("from the environment variable HEADWATER_HTTP__PORT")
    file = write('[log]\nlevel = "loud"\n')
    error = refusal()
    assert error.fact == "setting log.level is not valid"
    assert "'debug', 'info', 'warning' or 'error'" in error.detail
    assert error.detail.endswith(f"from {file}")


def test_all_that_is_wrong_comes_at_once() -> None:
    error = refusal(HEADWATER_HTTP__PORT="0", HEADWATER_SOURCE="Shop")
    assert error.fact == "2 settings are not valid"
    assert "http.port" in error.detail
    assert "source" in error.detail


def test_malformed_toml_is_refused_with_file_and_line() -> None:
    file = write(f'source = "a"\n[postgres]\npassword = {SECRET}\n')
    error = refusal()
    assert error.fact == f"{file} is not valid TOML"
    assert "line 3" in error.detail
    assert SECRET not in str(error)


def test_a_file_that_is_not_utf8_is_refused() -> None:
    Path("headwater.toml").write_bytes(b'source = "\xff"')
    assert refusal().fact.endswith("is not UTF-8")


@pytest.mark.parametrize("source", ["", "Shop", "1a", "a-b", "a" * 41, "a b", "é"])
def test_a_source_that_could_not_name_a_slot_is_refused(source: str) -> None:
    write(f'source = "{source}"')
    assert refusal().fact == "setting source is not valid"


@pytest.mark.parametrize("tables", ["[]", "['orders']", "['a.b.c']", "['*.*']", "['a.b', 'a.b']", "[1]", "7"])
def test_tables_that_are_no_patterns_are_refused(tables: str) -> None:
    write(f"tables = {tables}")
    assert refusal().fact == "setting tables is not valid"


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("[postgres]\nuser = 'u'", "postgres.user is set, but postgres is embedded"),
        ("[postgres]\nhost = 'h'\nuser = 'u'", "postgres.database is missing"),
        ("[postgres]\nurl = 'postgresql://u@h/d'\ncapture_password = 'x'", "postgres.capture_user is missing"),
        ("[kafka]\nsasl_username = 'u'", "kafka.sasl_username is set, but kafka is embedded"),
        ("[kafka]\nbootstrap='h:1'\nsasl_password = 'p'", "kafka.sasl_password is set, but"),
        ("[kafka]\nbootstrap='h:1'\nsecurity_protocol='SASL_SSL'", "kafka.sasl_username is missing, but"),
        ("[kafka]\nbootstrap='h:1'\nssl_ca='ca'", "kafka.ssl_ca is set, but kafka.security_protocol is PLAINTEXT"),
        ("[kafka]\nbootstrap='h:1'\nsecurity_protocol='SSL'\nssl_key='k'", "go together"),
        ("[connect]\nurl='http://h:1'\nca_file='ca'", "connect.url does not begin with https://"),
        ("[connect]\nuser='u'", "connect.user is set, but connect is embedded"),
        ("[elasticsearch]\nurl='http://h:1'\nuser='u'", "go together"),
        ("[elasticsearch]\nurl='http://h:1'\nuser='u'\npassword='p'\napi_key='k'", "exclude each other"),
        ("[redis]\nca_file='ca'", "redis.url does not begin with rediss://"),
        ("[capture]\nmax_queue_rows = 100", "must be greater than capture.max_batch_rows"),
        ("[capture]\nrestart_backoff_max_ms = 10", "must not be less than"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(text: str, fact: str) -> None:
    write(text)
    assert fact in refusal().fact


@pytest.mark.parametrize("bootstrap", ["h", "h:0", "h:99999", "h:1,", "http://h:1", "h:1;b:2"])
def test_a_bootstrap_without_hosts_and_ports_is_refused(bootstrap: str) -> None:
    assert refusal(HEADWATER_KAFKA__BOOTSTRAP=bootstrap).fact == "setting kafka.bootstrap is not valid"


# Secrets

BAD_URLS = [
    f"postgresql://u:{SECRET}@h:port/d",
    f"postgresql://u:{SECRET}/x@h/d",
    f"postgresql://u:12/{SECRET}@h/d",
    f"postgresql://u:{SECRET}#x@h/d",
    f"postgresql://u:{SECRET}?x@h/d",
    f"postgresql://u:{SECRET}@h1:1,h2:2/d",
    f"postgresql://h/d?user=u&password={SECRET}",
    f"postgresql://u:{SECRET}",
    f"postgresql://u:{SECRET}@/d",
    f"postgresql://u:{SECRET}@[::1/d",
    f"mysql://u:{SECRET}@h/d",
    f"u:{SECRET}@h/d",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_bad_url_is_refused_without_its_password(url: str) -> None:
    error = refusal(HEADWATER_POSTGRES__URL=url)
    assert error.fact == "setting postgres.url is not valid"
    assert SECRET not in "".join(traceback.format_exception(error))
    assert error.__context__ is None
    assert SECRET not in repr(SecretUrl(url)) + masked_url(url)


@given(password=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=8, max_size=30))
def test_no_password_shows_whatever_is_in_it(password: str) -> None:
    # The marks make sure that a part of the password cannot be there by accident.
    marked = f"Q1z{password}Q2z"
    for url in (f"postgresql://u:{marked}@h/d", f"redis://:{marked}@h:1/0", f"http://u:{marked}@h?password={marked}"):
        shown = masked_url(url)
        assert "Q1z" not in shown
        assert "Q2z" not in shown
    quoted = f"postgresql://u:{quote(marked, safe='')}@h/d"
    settings = Settings.model_validate({"postgres": {"url": quoted}})
    address = settings.postgres.address()
    assert address is not None
    assert address.password == marked
    assert "Q1z" not in repr(settings) + repr(address)


def _everything_secret() -> dict[str, str]:
    return {
        "HEADWATER_POSTGRES__URL": f"postgresql://u:{SECRET}@h/d",
        "HEADWATER_POSTGRES__CAPTURE_USER": "c",
        "HEADWATER_POSTGRES__CAPTURE_PASSWORD": SECRET,
        "HEADWATER_KAFKA__BOOTSTRAP": "h:1",
        "HEADWATER_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        "HEADWATER_KAFKA__SASL_USERNAME": "u",
        "HEADWATER_KAFKA__SASL_PASSWORD": SECRET,
        "HEADWATER_KAFKA__SSL_KEY_PASSWORD": SECRET,
        "HEADWATER_CONNECT__URL": "http://h:1",
        "HEADWATER_CONNECT__USER": "u",
        "HEADWATER_CONNECT__PASSWORD": SECRET,
        "HEADWATER_ELASTICSEARCH__URL": "http://h:1",
        "HEADWATER_ELASTICSEARCH__API_KEY": SECRET,
        "HEADWATER_REDIS__URL": f"redis://:{SECRET}@h:1/0",
        "HEADWATER_SPARK__CONF": json.dumps({"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.ui.enabled": "true"}),
    }


def test_nothing_that_prints_settings_prints_a_secret() -> None:
    loaded = load_with_origins(environ=_everything_secret())
    shown = effective(loaded)
    text = repr(loaded) + str(loaded.settings) + repr(shown) + loaded.settings.model_dump_json()
    assert SECRET not in text
    values = {setting.name: setting.value for setting in shown}
    assert values["postgres.url"] == "postgresql://u:***@h/d"
    assert values["kafka.sasl_password"] == "***"
    assert values["spark.conf"] == {"spark.hadoop.fs.s3a.secret.key": "***", "spark.ui.enabled": "true"}
    assert pickle.loads(pickle.dumps(loaded.settings)) == loaded.settings


def test_a_secret_survives_no_validation_error() -> None:
    for name in ("HEADWATER_HTTP__PORT", "HEADWATER_LOG__LEVEL", "HEADWATER_SPARK__CONF", "HEADWATER_SOURCE"):
        error = refusal(**{**_everything_secret(), name: SECRET})
        assert SECRET not in "".join(traceback.format_exception(error))
        assert error.__context__ is None
    write(f'[postgres]\npassword = ["{SECRET}"]\nport = "{SECRET}"\n')
    assert SECRET not in str(refusal())


# The reference page


def test_every_setting_is_described() -> None:
    undescribed = [name for name, field in fields().items() if not field.info.description]
    assert undescribed == []
    assert all(f"`{field.variable}`" in markdown() for field in fields().values())


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown(), "headwater config docs > docs/settings.md"
