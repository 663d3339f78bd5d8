"""Read a sink's own settings into a typed struct.

In: the table `[connectors.NAME.sink]`. Out: a struct, or a `ValueError` that names the key and what to write.
Must never: show a value that was given, since it may be a password.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class SettingsError(ValueError):
    """A setting of a sink is missing or wrong; the text begins with its key."""


class Setting(msgspec.Struct, frozen=True):
    """One setting as the reference shows it.

    Attributes:
        key: as it is written.
        default: `msgspec.NODEFAULT` where it has to be given.
        about: what it means.
        wanted: what may be written.
    """

    key: str
    default: Any
    about: str
    wanted: str


def read_settings(kind: type[T], config: Mapping[str, Any]) -> T:
    """Return the settings of a sink.

    Args:
        kind: a frozen struct whose fields are `Annotated` with what they mean.
        config: as `sink.toml` has them.

    Raises:
        SettingsError: a key is unknown, missing, or has a wrong value.
    """
    known = {setting.key: setting for setting in settings_of(kind)}
    for key, value in config.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise SettingsError(f"{key}: there is no such setting; {hint}")
        try:
            msgspec.convert(value, _hints(kind)[key])
        except msgspec.ValidationError:
            raise SettingsError(f"{key}: {known[key].wanted}") from None
    for key, setting in known.items():
        needed = setting.default is msgspec.NODEFAULT
        if needed and (key not in config or config[key] == ""):
            raise SettingsError(f"{key}: is missing; write {setting.about}")
    return msgspec.convert(dict(config), kind)


@functools.cache
def settings_of(kind: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """Return each setting of a struct, in order."""
    found = []
    for field in msgspec.structs.fields(kind):
        hint = _hints(kind)[field.encode_name]
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        about = next(meta.description for meta in _metas(hint) if meta.description)
        found.append(Setting(field.encode_name, default, about, _wanted(hint)))
    return tuple(found)


@functools.cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(kind)}


def _metas(hint: Any) -> list[msgspec.Meta]:
    if get_origin(hint) is not Annotated:
        return []
    inner, *metas = get_args(hint)
    return [*metas, *_metas(inner)]


def _bare(hint: Any) -> Any:
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint


def _wanted(hint: Any) -> str:
    """Return what has to be written, for somebody who does not know our types."""
    bare = _bare(hint)
    if get_origin(bare) is Literal:
        return f"choose one of {', '.join(get_args(bare))}"
    words = {
        int: "must be a whole number",
        float: "must be a number",
        bool: "must be true or false",
        str: "must be text, in quotes",
        list[str]: 'must be a list of texts, such as ["a", "b"]',
        list[int]: "must be a list of whole numbers, such as [408, 429]",
        dict[str, str]: "must be a table of texts",
    }[bare]
    for meta in _metas(hint):
        if meta.gt is not None:
            words += f" above {meta.gt:g}"
        if meta.ge is not None:
            words += f" of {meta.ge:g} or more"
        if meta.le is not None:
            words += f", no more than {meta.le:g}"
        if meta.min_length:
            words += ", not empty"
    return words
