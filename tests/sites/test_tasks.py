"""Background tasks of sites."""

from __future__ import annotations

import asyncio

from wfrun.sites.tasks import BackgroundTasks


async def test_a_task_that_is_ended_before_it_began_leaves_no_warning() -> None:
    """pytest turns the warning of a coroutine that was never awaited into a failure."""
    began, defects = [], list[Exception]()

    async def work() -> None:
        began.append(True)

    tasks = BackgroundTasks(defects.append)
    tasks.start(work())
    await tasks.end()
    assert (began, defects) == ([], [])


async def test_the_error_of_a_task_is_a_defect() -> None:
    defects = list[Exception]()

    async def fail() -> None:
        raise ValueError("x")

    tasks = BackgroundTasks(defects.append)
    tasks.start(fail())
    await asyncio.sleep(0.01)
    assert [str(error) for error in defects] == ["x"]
    await tasks.end()
