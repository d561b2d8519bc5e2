"""Make docs/images/progress.svg: the live display of a real run, half-way through.

    python tools/record_progress.py [SVG]

A generated workflow is run, emulated, over the five sites of examples/das3.yaml. When half of its
tasks are done, the picture that `wfrun run` shows on a terminal at that moment is saved.
"""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from tools.record_command import save_svg, terminal  # noqa: E402
from wfrun import generate, read_catalog, write_dax  # noqa: E402
from wfrun.engine.events import Settings  # noqa: E402
from wfrun.runners.inspect.live.live import REFRESH_S, LiveProgress  # noqa: E402
from wfrun.runners.run.prepare.prepare import prepare  # noqa: E402
from wfrun.runners.run.session import Session  # noqa: E402

TIME_SCALE = 0.25
COMMAND = (
    f"$ wfrun cybershake-1000.dax --sites examples/das3.yaml --emulate --time-scale {TIME_SCALE}"
)


def main() -> None:
    svg = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs/images/progress.svg"
    with tempfile.TemporaryDirectory() as folder:
        pictures, title = asyncio.run(watch(Path(folder)))
    console = terminal(record=True)
    console.print(Text(COMMAND))
    console.print(Text(f"run wfrun-runs/{title}"))
    console.print(pictures)
    save_svg(console, svg)
    print(svg)


async def watch(folder: Path) -> tuple[RenderableType, str]:
    """Run the workflow to its end; returns the display at half of it, and its title."""
    document = folder / "cybershake-1000.dax"
    write_dax(generate("cybershake", tasks=1000, seed=1), document)
    settings = Settings(emulate=True, time_scale=TIME_SCALE)
    plan = prepare([document], read_catalog(ROOT / "examples/das3.yaml"), settings)
    session = Session()
    session.start(plan, folder / "cybershake-1000-1", document.stem)
    display = LiveProgress(Console(file=io.StringIO()), session.state, session.run.name)
    run = asyncio.create_task(session.drive())
    picture: RenderableType | None = None
    while not run.done():
        shown = frozen(display.render())
        if picture is None and session.state.done >= 500:
            picture = shown
        await asyncio.wait([run], timeout=REFRESH_S)
    if (await run).ended != "done" or picture is None:
        sys.exit("the run failed, or was over before its picture was taken")
    return picture, session.run.name


def frozen(picture: RenderableType) -> RenderableType:
    """The picture as it is now: tables read the state of the run when they are printed."""
    console = terminal()
    with console.capture() as capture:
        console.print(picture)
    return Text.from_ansi(capture.get())


if __name__ == "__main__":
    main()
