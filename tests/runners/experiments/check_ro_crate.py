"""Checks RO-Crates with the validator of the RO-Crate community, in an environment of its own,
since its packages want an older rich than wfrun: ``make ro-crate``.

    .venv-ro-crate/bin/python tests/runners/experiments/check_ro_crate.py CRATE…

Prints what is required and missing, and exits with 1 if there is any. Nothing is fetched: the
JSON-LD context is that of the package rocrate, with the one term that version 1.1 has elsewhere.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import rocrate
from rdflib.plugins.shared.jsonld import context, util

PROFILE = "workflow-run-crate-0.5"
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
FETCHING = ["ro-crate-1.1_3.1", "ro-crate-1.1_3.2"]
"""Checks that fetch the context itself."""


def use_own_context() -> None:
    """Let rdflib read the context from a file."""
    path = Path(rocrate.__file__).parent / "data/ro-crate.jsonld"
    own = json.loads(path.read_text())
    own["@context"]["ComputationalWorkflow"] = "https://bioschemas.org/ComputationalWorkflow"
    fetch = util.source_to_json

    def read(source: Any, *words: Any, **names: Any) -> Any:
        if isinstance(source, str) and source.startswith(CONTEXT):
            return own, None
        return fetch(source, *words, **names)

    util.source_to_json = context.source_to_json = read


def main() -> int:
    logging.disable(logging.WARNING)  # a line for each file without a public address
    use_own_context()
    # Imported after that, since its modules take the function of rdflib when they are imported.
    from rocrate_validator import models, services

    issues: set[str] = set()
    for crate in sys.argv[1:]:
        settings = services.ValidationSettings(
            rocrate_uri=crate,
            profile_identifier=PROFILE,
            requirement_severity=models.Severity.REQUIRED,
            skip_checks=FETCHING,
        )
        result = services.validate(settings)
        issues |= {f"{crate}: {i.check.identifier}: {i.message}" for i in result.get_issues()}
        print(f"{crate}: {'valid' if result.passed() else 'not valid'}")
    print(*sorted(issues), sep="\n")
    return 1 if issues else 0


if __name__ == "__main__":
    sys.exit(main())
