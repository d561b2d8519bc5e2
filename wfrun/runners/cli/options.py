"""Options of commands made from `Settings`.

A command with the options of a run::

    @click.command(cls=SectionedCommand)
    @option("--inputs", section="Documents", ...)
    @settings_options("simulate", without=("seed",))
    def simulate(**options):
        settings = settings_from(options, seed=3)

`settings_options` adds an option for each field of `Settings` that concerns the command, except the
fields in ``without``, which the command offers in another form. click passes the values under the
names of the fields. `settings_from` makes `Settings` from the values and checks them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar

import click
from click.shell_completion import CompletionItem

from wfrun.engine.settings import Setting, Settings, all_settings, as_flag, make_settings
from wfrun.parsers.syntax.units import parse_duration, parse_size
from wfrun.runners.cli.completion import complete_files
from wfrun.runners.cli.sections import option

_C = TypeVar("_C", bound=Callable[..., Any])
_Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem] | list[str]]


class _Whole(click.IntRange):
    """A whole number. The help text shows the range; `make_settings` checks it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return click.INT.convert(value, param, ctx)


class _Number(click.FloatRange):
    """A number. The help text shows the range; `make_settings` checks it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return click.FLOAT.convert(value, param, ctx)


class _Size(click.IntRange):
    """A number of bytes, such as ``10 MB``. The help text shows the range; `make_settings` checks
    it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Duration(click.FloatRange):
    """A duration, such as ``1h`` or ``90 min``. The help text shows the range; `make_settings`
    checks it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _WholeOrWord(_Whole):
    """A whole number, or one of some words."""

    def __init__(self, words: Sequence[str], *bounds: Any) -> None:
        super().__init__(*bounds)
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self._words:
            return value
        try:
            return int(value)
        except ValueError:
            words = " or ".join(map(repr, self._words))
            self.fail(f"{value!r} is neither a whole number nor {words}.", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self._words if word.startswith(incomplete)]


def settings_options(
    command: Literal["run", "simulate", "resume", "jobs"],
    *,
    without: Collection[str] = (),
    only: Collection[str] = (),
) -> Callable[[_C], _C]:
    """Add an option for each field of `Settings` that concerns the command, except the fields in
    ``without``. If ``only`` is not empty, add options for its fields alone. Options of ``resume``
    have no defaults, because an option that is not given changes nothing."""

    def add(function: _C) -> _C:
        for setting in reversed(all_settings().values()):
            if setting.name in without or (only and setting.name not in only):
                continue
            if _concerns(setting, command):
                function = _settings_option(setting, keeps=command == "resume")(function)
        return function

    return add


def _concerns(setting: Setting, command: str) -> bool:
    option = setting.option
    if option.only_jobs:
        return command == "jobs"
    return {
        "run": True, "jobs": option.jobs, "simulate": option.simulate, "resume": option.resume,
    }[command]  # fmt: skip


def _settings_option(setting: Setting, *, keeps: bool) -> Callable[[_C], _C]:
    """Make the option of a command for a setting. ``keeps``: the option has no default, because
    without it the run keeps its own setting."""
    described = setting.option
    is_mapping = setting.type is Mapping
    has_default = not (is_mapping or keeps) and setting.default not in (None, "")
    return option(
        setting.name,
        *filter(None, (setting.flag, described.short)),
        type=_type(setting),
        is_flag=setting.type is bool,
        multiple=is_mapping,
        default=setting.shown_default if has_default else None,
        show_default=has_default and setting.type is not bool,
        metavar=described.metavar or None,
        shell_complete=_completer(setting),
        help=described.help,
        section=described.section,
    )


def _type(setting: Setting) -> Any:
    """The click type of an option, which converts its value and shows its choices or range."""
    low, high = setting.option.minimum, setting.option.maximum
    bounds: list[Any] = [None if math.isinf(bound) else bound for bound in (low, high)]
    if setting.type is Mapping:
        return str
    if setting.is_duration:
        return _Duration(*bounds)
    if setting.choices and setting.type is int:
        return _WholeOrWord(setting.choices, *bounds)
    if setting.choices:
        return click.Choice(setting.choices)
    if setting.name.endswith("_bytes"):
        return _Size(*bounds)
    if setting.type is int and bounds != [None, None]:
        return _Whole(*bounds)
    if setting.type is float:
        return _Number(*bounds)
    return setting.type


def settings_from(options: Mapping[str, Any], **fixed: Any) -> Settings:
    """Make and check the settings from the values of a command's options. ``fixed`` fields replace
    the values of options. Raises InvalidError, which names the flag of a wrong option."""
    given = {name: options.get(name) for name in all_settings()} | fixed
    return make_settings(
        {name: _mapping(name, v) if isinstance(v, tuple) else v for name, v in given.items()},
        as_flag,
    )


def changes_from(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the options of ``wfrun resume`` change, by field of `Settings`. Options
    that are not given are absent."""
    given = {n: options[n] for n in all_settings() if options.get(n) not in (None, ())}
    return {name: _mapping(name, v) if isinstance(v, tuple) else v for name, v in given.items()}


def _mapping(field: str, texts: Sequence[str]) -> dict[str, str]:
    """Split the texts of an option, each of the form ``NAME=VALUE``. Returns the values by name."""
    setting = all_settings()[field]
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            form = setting.option.metavar
            raise click.BadParameter(f"{text!r} is not {form}", param_hint=setting.flag)
        values[name] = value
    return values


def _completer(setting: Setting) -> _Completer | None:
    if setting.type is Mapping:
        return _names_of(setting)
    return complete_files if setting.option.metavar == "FILE" else _COMPLETERS.get(setting.name)


def _names_of(setting: Setting) -> _Completer:
    """Completion of an option of the form ``NAME=VALUE``: completes the names, each with ``=``."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [f"{name}=" for name in setting.choices if name.startswith(incomplete)]

    return complete


def _complete_policy(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from wfrun.engine.policies.placement import PLACEMENT

    return _installed(PLACEMENT, incomplete)


def _complete_selection(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from wfrun.engine.policies.selection import SELECTION

    return _installed(SELECTION, incomplete)


def _installed(policies: Mapping[str, object], incomplete: str) -> list[str]:
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    return [name for name in policies if name.startswith(incomplete)]


_COMPLETERS: dict[str, _Completer] = {
    "policy": _complete_policy,
    "selection": _complete_selection,
}
"""Shell completion by field of `Settings`. Fields with choices need none here: click completes
them."""
