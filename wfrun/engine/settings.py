"""The options of a run, described once.

Each field of `Settings` is an option of a run: of ``wfrun run``, of ``wfrun.run`` in Python, and,
unless its description says otherwise, of ``wfrun simulate``. The command line, the checks, the type
of the keyword arguments, the table in docs/running.md and the log are derived from the fields. To
add an option, add a field, and run ``make options``, which writes the derived files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from wfrun.engine.errors import InvalidError


class Option(NamedTuple):
    """What users read about a field of `Settings`, and the values that it accepts.

    Type and default are those of the field. The values of a ``Literal`` are the choices of the
    option, or words that are accepted beside numbers.
    """

    help: str
    section: str
    """Heading under which the option is listed."""
    metavar: str = ""
    """Placeholder for the value in help texts; not needed for flags and choices."""
    minimum: float = -math.inf
    maximum: float = math.inf
    flag: str = ""
    """Flag of the command line; empty: the field's name with dashes, without the unit ``_s``."""
    short: str = ""
    """A further flag of one letter."""
    needs: str = ""
    """Name of the field that must be set for this option to have an effect."""
    simulate: bool = True
    """Whether ``wfrun simulate`` has the option, too."""
    resume: bool = False
    """Whether ``wfrun resume`` can change the option."""
    jobs: bool = True
    """Whether ``wfrun jobs`` has the option, too."""
    only_jobs: bool = False
    """Whether only ``wfrun jobs`` has the option."""


SCHEDULING, FAILURES, REPLICAS = "Scheduling", "Failures", "Replicas"
EMULATION, FILES, NOTICES = "Emulation", "Files and output", "Notifications"


class Settings(msgspec.Struct, frozen=True):
    """The options of one run, stored in its first event. `make_settings` checks the values. The
    record itself accepts all values, so that a log stays readable when a bound becomes tighter."""

    # fmt: off
    policy: Annotated[str, Option(
        "Placement policy, which chooses the site of each task. `wfrun policies` lists them.",
        SCHEDULING, "NAME", short="-p", resume=True, jobs=False,
    )] = "file-aware"
    policy_options: Annotated[Mapping[str, int | float | str], Option(
        "Option of the placement policy, such as `size=50` for coarsening. Repeatable.",
        SCHEDULING, "NAME=VALUE", flag="--policy-option", short="-O", resume=True, jobs=False,
    )] = {}
    selection: Annotated[str, Option(
        "Selection policy, which orders the eligible tasks of all workflows and bags together. "
        "Default: s-bot if the run has a bag; otherwise workflows are placed in their order.",
        SCHEDULING, "NAME", jobs=False,
    )] = ""
    throttle: Annotated[int | Literal["auto", "none"] | None, Option(
        "Maximum number of dispatched tasks of each workflow, or `auto`: hold tasks back that no "
        "site would start soon, or `none`. Default: auto if the policy orders tasks, as heft does, "
        "otherwise none.", SCHEDULING, "N|auto|none", minimum=1,
        resume=True, jobs=False,
    )] = None
    seed: Annotated[int, Option("Seed of all random choices.", SCHEDULING, "N")] = 0
    predictor: Annotated[Literal["es", "rm", "sm", "last", "last2", "auto"], Option(
        "Method that predicts the run times of tasks and of other users' jobs: exponential "
        "smoothing, running mean, sliding median, the last, the mean of the last two, or for each "
        "class of tasks the one with the best record so far.",
        SCHEDULING, jobs=False,
    )] = "last2"
    retries: Annotated[int, Option(
        "Maximum number of retries of a task after its first attempt has failed.",
        FAILURES, "N", minimum=0, resume=True,
    )] = 2
    retry_delay_s: Annotated[float, Option(
        "Delay before the first retry of a task; doubled for each further one.",
        FAILURES, "DURATION", minimum=0, resume=True,
    )] = 1.0
    on_failure: Annotated[Literal["continue", "stop"], Option(
        "When a task has no retries left: run all tasks that do not depend on it, or start no "
        "further task.",
        FAILURES, resume=True,
    )] = "continue"
    wait: Annotated[bool, Option(
        "Wait for sites that cannot be reached when the run starts, and use the others meanwhile. "
        "Without it such a run does not start.",
        FAILURES, simulate=False,
    )] = False
    replicas: Annotated[int | None, Option(
        "Maximum number of replicas of a running task, at other sites if these are idle; the first "
        "attempt to succeed counts. Default: the policy's number; for stragglers at least 1.",
        REPLICAS, "N", minimum=0, resume=True, jobs=False,
    )] = None
    replication: Annotated[Literal["idle", "stragglers"], Option(
        "Replicate running tasks when cores are idle and no task waits for them, or only tasks "
        "that run much longer than others of their class.",
        REPLICAS, resume=True, jobs=False,
    )] = "idle"
    replica_share: Annotated[float, Option(
        "Maximum share of all cores that replicas use.",
        REPLICAS, "X", minimum=0, maximum=1, resume=True, jobs=False,
    )] = 1.0
    straggler_quantile: Annotated[float, Option(
        "Quantile of the run times of a class of tasks to which stragglers are compared.",
        REPLICAS, "X", minimum=0, maximum=1, resume=True, jobs=False,
    )] = 0.75
    straggler_factor: Annotated[float, Option(
        "A task is a straggler once it has run longer than this factor times the quantile.",
        REPLICAS, "X", minimum=0, resume=True, jobs=False,
    )] = 1.5
    emulate: Annotated[bool, Option(
        "Replace each task by one that takes its documented run time (divided by the speed of the "
        "site) and writes outputs of the documented sizes, as sparse files.",
        EMULATION, simulate=False,
    )] = False
    time_scale: Annotated[float, Option(
        "Factor on run times and transfer times.",
        EMULATION, "X", minimum=0, needs="emulate", simulate=False,
    )] = 1.0
    size_scale: Annotated[float, Option(
        "Factor on file sizes.",
        EMULATION, "X", minimum=0, needs="emulate", simulate=False, jobs=False,
    )] = 1.0
    pack_logs: Annotated[bool, Option(
        "Keep the output of tasks in one file per launcher instead of two files per task, for "
        "bags of very many tasks. `wfrun logs` reads both.",
        FILES, simulate=False, jobs=False,
    )] = False
    max_log_bytes: Annotated[int | None, Option(
        "Maximum size of the kept stdout of a task, and of its stderr, such as `10 MB`. Of longer "
        "output the beginning and the end are kept. Files that the document declares are never "
        "cut.",
        FILES, "SIZE", minimum=4096, flag="--max-log", simulate=False,
    )] = None
    checksums: Annotated[Literal["copies", "all", "off"], Option(
        "Verify the SHA-256 checksum of each copy; `all`: on resume also that of all files at the "
        "sites and in `outputs/`. With `off`, and of emulated tasks, only sizes are compared.",
        FILES, simulate=False,
    )] = "copies"
    keep: Annotated[Literal["all", "outputs", "failed"], Option(
        "Files of the run that stay at the sites. outputs: a file leaves a site when nothing needs "
        "it there any more, and the rest when all is done. failed: the same, but inputs and "
        "sandboxes of failed attempts stay. all: nothing is removed.",
        FILES, simulate=False, resume=True,
    )] = "outputs"
    input_catalog: Annotated[str, Option(
        "Replica catalog of Pegasus, text or YAML, that says where inputs of workflows are: on "
        "this machine, at sites, or at URLs. Its entries replace those of the documents.",
        FILES, "FILE", simulate=False, jobs=False,
    )] = ""
    allow_urls: Annotated[str, Option(
        "Hosts, separated by commas, from which inputs may be fetched by http, https, sftp, gsiftp "
        "or ftp URL. Default: none, since a document or an input catalog could name any host.",
        FILES, "HOST,…", simulate=False,
    )] = ""
    metrics_file: Annotated[str, Option(
        "Write the metrics of the run to this file every 15 s, in the text format of Prometheus, "
        "such as a .prom file for the textfile collector of its node_exporter.",
        FILES, "FILE", simulate=False, resume=True,
    )] = ""
    on: Annotated[Mapping[Literal["finished", "failed", "needs-login", "stalled"], str], Option(
        "Notify when all is done (finished), when the run ends otherwise (failed), when a site "
        "waits for you to log in (needs-login), or when nothing moves (stalled): by a shell "
        "command, or by JSON that is posted to an http or https URL. Repeatable.",
        NOTICES, "WHEN=COMMAND|URL", simulate=False, resume=True,
    )] = {}
    stalled_after_s: Annotated[float, Option(
        "A run counts as stalled when no task and no copy has started or ended for this time.",
        NOTICES, "DURATION", minimum=1, needs="on", simulate=False, resume=True,
    )] = 3600.0
    sizing: Annotated[Literal["binary", "exhaustive"] | None, Option(
        "Choose the number of processors of jobs with several sizes, and the cluster, by the "
        "earliest completion that the queues promise: with a binary search of the sizes, or by "
        "trying all.",
        SCHEDULING, flag="--size", simulate=False, only_jobs=True,
    )] = None
    reallocate: Annotated[
        Literal["mct-reg", "mct-can", "minmin-reg", "minmin-can"] | None, Option(
        "Move waiting jobs to clusters that would finish them sooner: in the order of submission "
        "(mct) or the soonest first (minmin); each by its gain (reg), or all placed anew (can).",
        SCHEDULING, simulate=False, only_jobs=True,
    )] = None
    reallocate_every_s: Annotated[float, Option(
        "Interval between two reallocations.",
        SCHEDULING, "DURATION", minimum=1, flag="--every", needs="reallocate", simulate=False,
        only_jobs=True,
    )] = 3600.0
    reallocate_gain_s: Annotated[float, Option(
        "Minimum time by which a move lets a job end sooner; the time of its files, if that is "
        "longer.",
        SCHEDULING, "DURATION", minimum=0, flag="--min-gain", needs="reallocate", simulate=False,
        only_jobs=True,
    )] = 60.0
    pack: Annotated[
        Literal["demt", "gang", "sequential", "list", "lptf", "saf"] | None, Option(
        "Pack all jobs into one allocation at one site: demt looks at the last completion and at "
        "the weighted sum of completions, the others are what it is compared with.",
        SCHEDULING, simulate=False, only_jobs=True,
    )] = None
    pack_processors: Annotated[int | None, Option(
        "Number of processors of the allocation. Default: those of the site, or of a launcher "
        "there.",
        SCHEDULING, "N", minimum=1, flag="--processors", needs="pack", simulate=False,
        only_jobs=True,
    )] = None
    place: Annotated[Literal["wf", "fcm", "ca"] | None, Option(
        "Run jobs over several clusters at once, on processors that are claimed in each: "
        "components by worst fit, or jobs divided over as few clusters as possible (flexible "
        "cluster minimization), or over clusters whose nodes are near each other "
        "(communication-aware).",
        SCHEDULING, simulate=False, only_jobs=True,
    )] = None
    metric: Annotated[Literal["latency", "bandwidth"], Option(
        "With `--place ca`: what the links between nodes are compared by.",
        SCHEDULING, needs="place", simulate=False, only_jobs=True,
    )] = "latency"
    tries: Annotated[int | None, Option(
        "Maximum number of tries to place a job; then it fails. Default: no limit.",
        SCHEDULING, "N", minimum=1, needs="place", simulate=False, only_jobs=True,
    )] = None
    claim_wait_s: Annotated[float, Option(
        "Maximum time from the first claimed processors of a job to its last ones; then it gives "
        "all back and waits again.",
        SCHEDULING, "DURATION", minimum=1, needs="place", simulate=False, only_jobs=True,
    )] = 60.0
    malleable: Annotated[Literal["fpsma", "egs"] | None, Option(
        "Let malleable jobs grow and shrink while they run: fpsma offers idle processors to the "
        "earliest started job first, egs to all equally.",
        SCHEDULING, simulate=False, only_jobs=True,
    )] = None
    precedence: Annotated[Literal["pra", "pwa"], Option(
        "With `--malleable`: pra grows running jobs before it places waiting ones; pwa shrinks "
        "running jobs for the first waiting one.",
        SCHEDULING, needs="malleable", simulate=False, only_jobs=True,
    )] = "pra"
    threshold: Annotated[int, Option(
        "With `--malleable`: processors of each site that growth leaves idle.",
        SCHEDULING, "N", minimum=0, needs="malleable", simulate=False, only_jobs=True,
    )] = 0
    scavenge: Annotated[Literal["persite", "all"] | None, Option(
        "Run on idle processors alone, which are given back as soon as a job of anybody waits: the "
        "owners of the run share those of each site equally, or those of all sites.",
        SCHEDULING, jobs=False,
    )] = None
    most_scavengers: Annotated[int | None, Option(
        "With `--scavenge`: maximum number of owners who share at a time; others wait for their "
        "turn. Default: no limit.",
        SCHEDULING, "N", minimum=1, needs="scavenge", resume=True, jobs=False,
    )] = None
    preempt: Annotated[str, Option(
        "With `--scavenge`: order in which launchers of an owner at a site give back their "
        "processors. Installed packages offer further ones.",
        SCHEDULING, "NAME", needs="scavenge", resume=True, jobs=False,
    )] = "last-pulled"
    # fmt: on

    @property
    def placed_by(self) -> str:
        """What chooses the site of each task, as text for users: the policy, or the option that
        replaces it (packing, malleability, placement over several sites, scavenging, or the search
        of sizes)."""
        if self.pack:
            return f"packed by {self.pack}"
        if self.malleable:
            return f"malleable {self.malleable}, {self.precedence}"
        if self.place:
            return f"place {self.place}"
        if self.scavenge:
            return f"scavenge {self.scavenge}"
        return f"size {self.sizing}" if self.sizing else self.policy

    @property
    def plans_queues(self) -> bool:
        """Whether sizes or moves of jobs are chosen from plans of the sites' queues."""
        return self.sizing is not None or self.reallocate is not None

    @property
    def verifies_copies(self) -> bool:
        """Whether checksums of copies are compared. False under emulation, where outputs are sparse
        files: they cost no time to copy, but would take time to read."""
        return self.checksums != "off" and not self.emulate


class Setting(NamedTuple):
    """A field of `Settings` with its description, as other modules use it."""

    name: str
    """Name of the field, and of the keyword argument in Python."""
    flag: str
    """Flag of the command line."""
    type: type
    """bool, int, float, str or Mapping."""
    choices: tuple[str, ...]
    """Allowed values; empty: all values of the type. For a number: words that are allowed, too. For
    a mapping: the allowed names."""
    default: Any
    option: Option

    def problem(self, value: object) -> str | None:
        """Describe what is wrong with a value, as text to append to the option's name, such as
        ``is 0, but must be at least 1``. None if the value is valid."""
        if self.type is Mapping:
            return self._mapping_problem(value)
        if value in self.choices:
            return None
        if self.type in (int, float):
            return self._number_problem(value)
        if self.choices:
            return f"is {value!r}, but must be {' or '.join(self.choices)}"
        if not isinstance(value, self.type):
            return f"is {value!r}, but must be {_KINDS[self.type]}"
        return None

    def _mapping_problem(self, value: object) -> str | None:
        if not isinstance(value, Mapping):
            return f"is {value!r}, but must be {_KINDS[Mapping]}"
        unknown = [name for name in value if self.choices and name not in self.choices]
        if unknown:
            return f"has {unknown[0]!r}, but knows {', '.join(self.choices)}"
        return None

    def _number_problem(self, value: object) -> str | None:
        numbers = (int,) if self.type is int else (int, float)
        if not isinstance(value, numbers) or isinstance(value, bool):
            kinds = " or ".join((_KINDS[self.type], *self.choices))
            return f"is {value!r}, but must be {kinds}"
        if not self.option.minimum <= value <= self.option.maximum:
            unit = " s" if self.is_duration and math.isfinite(value) else ""
            shown = f"{value:g}" if isinstance(value, float) else value
            return f"is {shown}{unit}, but must be {self.range}{unit}"
        return None if math.isfinite(value) else f"is {value}, but must be a finite number"

    @property
    def is_duration(self) -> bool:
        """Whether the option is a time in seconds, which users write with a unit."""
        return self.type is float and self.name.endswith("_s")

    @property
    def shown_default(self) -> Any:
        """The default as users write it, a duration with its unit."""
        return _spelled(self.default) if self.is_duration else self.default

    @property
    def range(self) -> str:
        """The bounds of a number in words; empty: it has none."""
        low, high = self.option.minimum, self.option.maximum
        if high < math.inf:
            return f"from {low:g} to {high:g}"
        return f"at least {low:g}" if low > -math.inf else ""


def _spelled(duration_s: float) -> str:
    """A duration with the largest unit of which it is a multiple; a single minute is ``60s``."""
    for unit, unit_s, least_s in (("d", 86_400, 86_400), ("h", 3600, 3600), ("min", 60, 120)):
        if duration_s >= least_s and duration_s % unit_s == 0:
            return f"{duration_s / unit_s:g}{unit}"
    return f"{duration_s:g}s"


_KINDS: dict[type, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Mapping: "a mapping of names to values",
}


@cache
def all_settings() -> dict[str, Setting]:
    """All options of a run by the names of their fields, in the order of the fields."""
    hints = get_type_hints(Settings, include_extras=True)
    return {
        field.name: _setting(field, *get_args(hints[field.name])[:2])
        for field in msgspec.structs.fields(Settings)
    }


def _setting(field: msgspec.structs.FieldInfo, hint: Any, option: Option) -> Setting:
    kinds = get_args(hint) if type(None) in get_args(hint) else (hint,)
    named = [get_args(k)[0] if _is_mapping(k) else k for k in kinds]
    choices: tuple[str, ...] = sum((get_args(k) for k in named if get_origin(k) is Literal), ())
    hint = kinds[0]
    default = field.default
    if default is msgspec.NODEFAULT:
        default = field.default_factory()
    return Setting(
        field.name,
        option.flag or "--" + field.name.removesuffix("_s").replace("_", "-"),
        str if get_origin(hint) is Literal else get_origin(hint) or hint,
        choices,
        default,
        option,
    )


def _is_mapping(hint: Any) -> bool:
    return get_origin(hint) is Mapping


def as_argument(setting: Setting) -> str:
    """The name of an option in Python."""
    return setting.name


def as_flag(setting: Setting) -> str:
    """The name of an option on the command line."""
    return setting.flag


def make_settings(
    given: Mapping[str, Any], written: Callable[[Setting], str] = as_argument
) -> Settings:
    """The settings that a user gives by field name, checked; None stands for the default.

    ``written`` returns the name of an option as the user writes it. Raises InvalidError for the
    first option with a wrong type, value or choice, or without effect, and TypeError for a name
    that is no field. Names of policies, and the options of a policy, are checked where the policy
    is looked up.
    """
    values: dict[str, Any] = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in given.items()
        if value is not None
    }
    for setting in all_settings().values():
        if setting.name in values:
            _check(setting, values, written)
    return Settings(**values)


def _check(setting: Setting, values: Mapping[str, Any], written: Callable[[Setting], str]) -> None:
    value, needs = values[setting.name], setting.option.needs
    problem = setting.problem(value)
    if problem is not None:
        raise InvalidError(f"{written(setting)} {problem}")
    if needs and value != setting.default and not values.get(needs):
        raise InvalidError(
            f"{written(setting)} has no effect without {written(all_settings()[needs])}",
            hint="give both or neither",
        )
