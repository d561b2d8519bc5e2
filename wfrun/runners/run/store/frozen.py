"""Serializes the state of a run and restores it, so that a reader of a long log need not replay all
events.

The serialized form is a pickle that names documents by their digests. It contains only what follows
from the log. Only the version of wfrun that wrote it can read it.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from random import Random
from typing import Any, NoReturn, cast

from wfrun.engine.core.capability import Hooks, Part, Run
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import WorkflowState, children_of
from wfrun.engine.model import Workflow
from wfrun.runners.run.store.stored_documents import StoredParents

_PACKAGE = "wfrun.engine."
_OTHERS: dict[str, Any] = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in (
        array, Counter, OrderedDict, defaultdict, deque, Random, int, float, set, frozenset,
        bytearray, bytes, list, dict, tuple,
    )
}  # fmt: skip
"""Classes outside of the engine that a state may hold, by name."""


def _document(digest: str) -> NoReturn:
    """Placeholder of a document in the pickle, which `thaw` replaces by the document."""
    raise pickle.UnpicklingError(f"{digest}: read in `thaw`")


def _all_documents() -> NoReturn:
    """Placeholder of the mapping of documents in the pickle, which `thaw` replaces by its
    argument."""
    raise pickle.UnpicklingError("documents are read in `thaw`")


def freeze(core: Core) -> bytes:
    """Serialize the state and the parts of a run, between two events. Raises pickle.PicklingError,
    TypeError or AttributeError if the content cannot be pickled, for example a user's policy."""
    run = core.run
    digests = {id(workflow): digest for digest, workflow in run.state.documents.items()}
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5)
    pickler.dispatch_table = copyreg.dispatch_table.copy()
    pickler.dispatch_table[Workflow] = lambda w: (_document, (digests[id(w)],))
    if type(run.state.documents) is not dict:
        pickler.dispatch_table[type(run.state.documents)] = lambda _: (_all_documents, ())
    pickler.dispatch_table[WorkflowState] = _without_children
    pickler.dispatch_table[Hooks] = lambda hooks: (Hooks, ())  # `thaw` fills it
    pickler.dump(run)
    return stream.getvalue()


def _without_children(w: WorkflowState) -> Any:
    """The pickled form of the state of a workflow, without ``children``, which follow from the
    document."""
    reduced: Any = w.__reduce_ex__(5)
    call, arguments, (_, slots), *_ = reduced
    return call, arguments, (None, {name: slots[name] for name in slots if name != "children"})


class _Thawer(pickle.Unpickler):
    """Unpickler that makes only objects of the engine and of a few collections, so that no bytes
    can run code."""

    def __init__(self, body: bytes, documents: Mapping[str, Workflow]) -> None:
        super().__init__(io.BytesIO(body))
        self._documents = documents

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, _document.__name__):
            return self._documents.__getitem__
        if (module, name) == (__name__, _all_documents.__name__):
            return lambda: self._documents
        if (module, name) == ("array", "_array_reconstructor"):
            return super().find_class(module, name)
        if module.startswith(_PACKAGE) and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        found = _OTHERS.get(f"{module}.{name}")
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a state")
        return found


def thaw(body: bytes, documents: Mapping[str, Workflow]) -> Core:
    """Restore a core from the bytes of `freeze`. Raises what pickle raises for bytes that `freeze`
    of this version has not made."""
    run = _Thawer(body, documents).load()
    if not isinstance(run, Run):
        raise pickle.UnpicklingError("it holds no run")
    for w in run.state.workflows:
        parents = w.workflow.parents
        if isinstance(parents, StoredParents):
            w.children = parents.children
        else:
            w.children = children_of(w.workflow)
    for part in run.state.parts.values():
        run.hooks.add(cast(Part, part))
    return Core(documents, run)
