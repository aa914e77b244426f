"""`/docs`: every call of the API on one page, made from its OpenAPI description. No script or style from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response

from headwater.pages.page_route import PageRoute
from headwater.pages.rendering import page

_METHODS: Final = ("get", "post", "put", "patch", "delete")
_GROUPS: Final = {"v1/views": "Reading views", "v1/search": "Searching", "v1/alerts": "Saved searches and alerts"}
WHOLE_BODY: Final = "(the body)"
_OTHERS: Final = "Everything else"


@dataclass(frozen=True, slots=True)
class Given:
    """A parameter, or a part of the body."""

    name: str
    where: str
    kind: str
    is_needed: bool
    says: str


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str
    title: str
    says: str
    given: tuple[Given, ...]
    curl: str

    @property
    def anchor(self) -> str:
        return f"{self.method}{self.path}".lower().replace("/", "-").replace("{", "").replace("}", "")


def calls(described: Mapping[str, Any]) -> list[Call]:
    """In the order in which they are registered."""
    return [
        _call(method, path, operation, described)
        for path, operations in described.get("paths", {}).items()
        for method, operation in operations.items()
        if method in _METHODS
    ]


def grouped(found: list[Call]) -> list[tuple[str, list[Call]]]:
    order = [*_GROUPS.values(), _OTHERS]
    placed = sorted(found, key=lambda call: order.index(_group(call)))
    return [(name, list(group)) for name, group in groupby(placed, key=_group)]


def _group(call: Call) -> str:
    start = "/".join(call.path.strip("/").split("/")[:2])
    return _GROUPS.get(start, _OTHERS)


def _call(method: str, path: str, operation: Mapping[str, Any], described: Mapping[str, Any]) -> Call:
    title, _, says = operation.get("description", operation.get("summary", "")).strip().partition("\n")
    given = (*map(_parameter, operation.get("parameters", ())), *_body(operation, described))
    return Call(method.upper(), path, title, says.strip(), given, _curl(method, path, given))


def _parameter(told: Mapping[str, Any]) -> Given:
    return Given(
        told["name"],
        told["in"],
        _kind(told.get("schema", {})),
        told.get("required", False),
        told.get("description", ""),
    )


def _body(operation: Mapping[str, Any], described: Mapping[str, Any]) -> Iterator[Given]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = _resolved(content.get("schema", {}), described)
        needed = schema.get("required", ())
        for name, told in schema.get("properties", {}).items():
            yield Given(name, "body", _kind(told), name in needed, told.get("description", ""))
        if "properties" not in schema and "description" in schema:  # what it may hold is said elsewhere
            yield Given(WHOLE_BODY, "body", _kind(schema), True, schema["description"])


def _resolved(schema: Mapping[str, Any], described: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    name = str(schema["$ref"]).rpartition("/")[2]
    found: Mapping[str, Any] = described.get("components", {}).get("schemas", {}).get(name, {})
    return found


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if choices := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_kind(each) for each in choices if each.get("type") != "null"))
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    kind = str(schema.get("type", "anything"))
    return f"{kind} of {_kind(schema['items'])}" if kind == "array" and schema.get("items") else kind


def _curl(method: str, path: str, given: tuple[Given, ...]) -> str:
    asked = "&".join(f"{each.name}=…" for each in given if each.where == "query" and each.is_needed)
    body = {each.name: "…" for each in given if each.where == "body" and each.is_needed}
    words = ["curl", *(["-X", method.upper()] if method != "get" else [])]
    if body:
        text = "{…}" if WHOLE_BODY in body else json.dumps(body, ensure_ascii=False)
        words += ["-H", "'content-type: application/json'", "-d", f"'{text}'"]
    return " ".join([*words, f'"$HEADWATER{path}{"?" + asked if asked else ""}"'])


def router(app: FastAPI) -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)

    @routes.get("/docs")
    def docs(request: Request) -> Response:
        found = calls(app.openapi())
        return page(request, "api_docs.html", groups=grouped(found), count=len(found))

    return routes
