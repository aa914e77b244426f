"""The real Elasticsearch of the stack, and nothing else of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from elasticsearch import Elasticsearch

from headwater.deployment import Deployment
from search.address import ElasticsearchAddress


@pytest.fixture(scope="session")
def address(deployment: Deployment) -> ElasticsearchAddress:
    given = deployment.elasticsearch
    return ElasticsearchAddress(given.url, given.user, given.password, given.api_key, given.ca_file)


@pytest.fixture(scope="session")
def client(address: ElasticsearchAddress) -> Iterator[Elasticsearch]:
    with address.client() as made:
        yield made
