# Two images: `headwater`, and `connect`, which is Kafka's own image with the locked Debezium in it.
#
#     docker compose build
#
# All that is installed is checked against a locked SHA-256. Nothing of the build is left in the images, and neither runs
# as root. Behind a mirror: --build-arg PIP_INDEX_URL=… and --build-arg MAVEN_REPOSITORY=…

# Debian 12, because it is the last one with Java 17.
FROM python:3.11.14-slim-bookworm AS python
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    PATH=/opt/headwater/bin:$PATH


FROM python AS build
ARG PIP_INDEX_URL
WORKDIR /build
RUN python -m venv /opt/headwater
# The dependencies by themselves: a change of the code does not install them again.
COPY requirements.lock ./
RUN pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY cdc cdc
COPY views views
COPY search search
COPY alerts alerts
COPY migrations migrations
COPY headwater headwater
RUN pip install --no-build-isolation --no-deps .


FROM build AS debezium
ARG MAVEN_REPOSITORY
RUN HEADWATER_STACK__REPOSITORY="${MAVEN_REPOSITORY}" headwater fetch debezium --to /plugins


FROM apache/kafka:4.3.1 AS connect
COPY --from=debezium --chown=root:root /plugins /opt/connect/plugins
USER appuser
EXPOSE 8083
CMD ["/opt/kafka/bin/connect-distributed.sh", "/etc/kafka/connect.properties"]


FROM python AS headwater
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --home-dir /var/lib/headwater headwater
COPY --from=build /opt/headwater /opt/headwater
USER headwater
WORKDIR /var/lib/headwater
VOLUME ["/var/lib/headwater"]
EXPOSE 8321
ENTRYPOINT ["headwater"]
CMD ["up"]
