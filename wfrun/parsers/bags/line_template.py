"""Templates given beside a document whose lines are tasks: a table or a list of commands."""

from __future__ import annotations

import msgspec


class LineTemplate(msgspec.Struct, frozen=True):
    """Templates for the task of each line. ``estimate`` is a time, or a parameter that holds it."""

    command: str | None = None
    """Command for each row of a table. None if the document is a list of commands, or is in a
    format that states commands itself."""
    delimiter: str | None = None
    """Delimiter of the cells of a table; see `wfrun.parsers.bags.text.read_table`."""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    stdout: str | None = None
    estimate: str | None = None

    def option_of(self, template: str) -> str:
        """The command-line option that gave this template; empty for a template that no option
        gave."""
        given = {
            "--input": self.inputs,
            "--output": self.outputs,
            "--stdout": (self.stdout,),
            "--estimate": (self.estimate,),
        }
        return next((option for option, texts in given.items() if template in texts), "")
