"""Decodes messages of launchers that contain invalid outcomes.

Outcomes come from journals, to which tasks can write. An invalid outcome makes its attempt lost;
the rest of the message remains valid.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from wfrun.engine.exchange import Found, Outcome

R_co = TypeVar("R_co", covariant=True)


class Decoder(Protocol[R_co]):
    """A decoder such as ``msgspec.json.Decoder``, for the messages of one kind of launcher."""

    def decode(self, line: bytes, /) -> R_co: ...


class _Outcomes(msgspec.Struct, omit_defaults=True):
    """The parts of a message whose items are decoded one by one, since each may be invalid."""

    ended: tuple[tuple[str, msgspec.Raw], ...] = ()
    found: dict[str, msgspec.Raw] | None = None


_PARTS = msgspec.json.Decoder(_Outcomes)
_ANY = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OUTCOME = msgspec.json.Decoder(Outcome)
_FOUND = msgspec.json.Decoder(Found)


def decode_report(line: bytes, decoder: Decoder[R_co]) -> R_co:
    """Decode the message of a line. An invalid outcome in it is replaced by the outcome of a lost
    attempt. Raises ValueError if anything else in the message is invalid."""
    try:
        try:
            return decoder.decode(line)
        except msgspec.ValidationError:
            message, parts = _ANY.decode(line), _PARTS.decode(line)
            ended = tuple((key, _outcome(raw)) for key, raw in parts.ended)
            found = {key: _found(raw) for key, raw in (parts.found or {}).items()}
            for name, mended in (("ended", ended), ("found", found)):
                if name in message:
                    message[name] = msgspec.Raw(msgspec.json.encode(mended))
            return decoder.decode(msgspec.json.encode(message))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _outcome(raw: msgspec.Raw) -> Outcome:
    try:
        return _OUTCOME.decode(raw)
    except msgspec.MsgspecError as error:
        return Outcome("lost", message=f"its exit record is invalid: {error}")


def _found(raw: msgspec.Raw) -> Found:
    try:
        return _FOUND.decode(raw)
    except msgspec.MsgspecError as error:
        message = f"its exit record is invalid: {error}"
        return Found("ended", Outcome("lost", message=message))
