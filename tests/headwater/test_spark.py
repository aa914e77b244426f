"""The session's settings, without starting it."""

from __future__ import annotations

from headwater.spark import _LOG4J, _conf


def test_a_local_driver_stays_on_loopback_and_a_remote_one_does_not() -> None:
    assert _conf(True, 512, {})["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in _conf(False, 512, {})


def test_what_the_user_sets_wins() -> None:
    conf = _conf(True, 512, {"spark.sql.shuffle.partitions": "9"})
    assert conf["spark.sql.shuffle.partitions"] == "9"
    assert conf["spark.driver.memory"] == "512m"


def test_the_log_configuration_is_shipped() -> None:
    assert _LOG4J.is_file()
    assert _LOG4J.as_uri() in _conf(True, 512, {})["spark.driver.extraJavaOptions"]
