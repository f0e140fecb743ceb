"""A real child process, from its first frame to its last."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import uvloop

from ferry_runtime.process import Backoff, ChildCommand, ChildGone, Supervisor

from .conftest import MakeOwner, Owner, Reply


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def alive(pid: int) -> bool:
    """Also true of a zombie."""
    return Path(f"/proc/{pid}").exists()


def until_gone(pid: int) -> None:
    while alive(pid):
        time.sleep(0.01)


async def test_messages_go_there_and_back_in_order(make_owner: MakeOwner) -> None:
    owner = make_owner()
    await owner.pid()
    for number in range(100):
        owner.order("echo", str(number))
    assert [await owner.replies.get() for _ in range(100)] == [str(number) for number in range(100)]


async def test_a_message_larger_than_the_sockets_buffer_arrives(make_owner: MakeOwner) -> None:
    owner = make_owner()
    await owner.pid()
    owner.order("echo", "x" * 5_000_000)
    assert len(await owner.replies.get()) == 5_000_000


async def test_sending_without_a_child_says_so(make_owner: MakeOwner) -> None:
    owner = make_owner()
    with pytest.raises(ChildGone):
        owner.order("echo")


async def test_goodbye_lets_the_child_finish(make_owner: MakeOwner) -> None:
    owner = make_owner()
    pid = await owner.pid()
    owner.order("echo", "before")
    await owner.supervisor.stop(grace_seconds=30)
    assert [await owner.replies.get(), await owner.replies.get()] == ["before", "goodbye"]
    end, restart_in = await owner.exits.get()
    assert (end.returncode, restart_in) == (0, None)
    assert not alive(pid)


async def test_sigterm_follows_when_goodbye_is_not_heeded(make_owner: MakeOwner) -> None:
    owner = make_owner(ON_GOODBYE="linger")
    await owner.pid()
    await owner.supervisor.stop(grace_seconds=0.2)
    end, _ = await owner.exits.get()
    assert end.returncode == -signal.SIGTERM


async def test_sigkill_follows_when_sigterm_is_ignored(make_owner: MakeOwner) -> None:
    owner = make_owner()
    pid = await owner.pid()
    owner.order("hang")
    assert await owner.replies.get() == "hanging"
    await owner.supervisor.stop(grace_seconds=0.2)
    end, _ = await owner.exits.get()
    assert end.returncode == -signal.SIGKILL
    assert not alive(pid)


async def test_kill_9_starts_another_life_that_works(make_owner: MakeOwner) -> None:
    owner = make_owner()
    first = await owner.pid()
    os.kill(first, signal.SIGKILL)
    end, restart_in = await owner.exits.get()
    assert "killed by signal 9" in end.reason
    assert restart_in is not None
    second = await owner.pid()
    assert second != first
    assert not alive(first)
    owner.order("echo", "again")
    assert await owner.replies.get() == "again"
    assert owner.supervisor.lives == 2


async def test_frames_sent_before_the_exit_arrive_before_it(make_owner: MakeOwner) -> None:
    owner = make_owner()
    await owner.pid()
    owner.order("exit", "7")
    end, _ = await owner.exits.get()
    assert end.returncode == 7
    assert owner.replies.get_nowait() == "last words"


async def test_a_child_that_fails_at_once_is_given_up(make_owner: MakeOwner) -> None:
    owner = make_owner(Backoff(first_seconds=0.01, quick_failures=3), module="no_such_module")
    delays = [(await owner.exits.get())[1] for _ in range(3)]
    assert delays == [0.01, 0.02, None]
    assert owner.supervisor.lives == 3


async def test_give_up_makes_this_life_the_last(make_owner: MakeOwner) -> None:
    owner = make_owner()
    await owner.pid()
    owner.supervisor.give_up()
    owner.order("exit", "1")
    assert (await owner.exits.get())[1] is None
    assert owner.supervisor.pid is None


async def test_stop_interrupts_the_wait_for_the_next_life(make_owner: MakeOwner) -> None:
    owner = make_owner(Backoff(first_seconds=3600, longest_seconds=3600))
    await owner.pid()
    owner.order("exit", "1")
    await owner.exits.get()
    await owner.supervisor.stop()
    assert owner.supervisor.lives == 1


async def test_a_child_that_closes_its_channel_is_dead(make_owner: MakeOwner) -> None:
    owner = make_owner()
    pid = await owner.pid()
    owner.order("close")
    end, _ = await owner.exits.get()
    assert end.returncode == -signal.SIGKILL
    assert not alive(pid)


async def test_what_the_child_writes_is_logged_line_by_line(
    make_owner: MakeOwner, caplog: pytest.LogCaptureFixture
) -> None:
    owner = make_owner()
    await owner.pid()
    with caplog.at_level(logging.INFO):
        owner.order("log", "careful")
        owner.order("fail")
        await owner.exits.get()
    lines = [(r.name, r.levelname, r.getMessage()) for r in caplog.records]
    assert ("child.part", "WARNING", "careful") in lines
    assert any(text == "a plain line" for _, _, text in lines)
    assert any("ValueError" in text for _, _, text in lines)


async def test_many_lives_leak_neither_descriptors_nor_zombies(make_owner: MakeOwner) -> None:
    owner = make_owner(Backoff(first_seconds=0.001, factor=1, quick_failures=100))
    pids = [await owner.pid()]
    before = open_files()
    for _ in range(5):
        owner.order("exit", "1")
        pids.append(await owner.pid())
    assert open_files() == before
    assert not any(alive(pid) for pid in pids[:-1])


async def test_signals_to_the_process_group_leave_the_child_to_its_parent(make_owner: MakeOwner) -> None:
    """Ctrl-C in a terminal; a SIGTERM by `timeout` or an init system."""
    owner = make_owner()
    assert os.getpgid(await owner.pid()) != os.getpgid(0)


PARENT = """
import asyncio, sys
from ferry_runtime.process import ChildCommand, Supervisor
sys.path.insert(0, {folder!r})

class Owner:
    def started(self):
        print(self.supervisor.pid, flush=True)
    def received(self, message): ...
    def exited(self, end, restart_in): ...

async def main():
    owner = Owner()
    command = ChildCommand(name="echo", module="echo_child", env={{"PYTHONPATH": {folder!r}}})
    owner.supervisor = Supervisor(command, owner, dict)
    owner.supervisor.start()
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_the_child_dies_with_a_killed_parent() -> None:
    folder = str(Path(__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.format(folder=folder)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert alive(child)
            parent.kill()
            until_gone(child)
        finally:
            parent.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_works_on_uvloop_too() -> None:
    async def main() -> tuple[str, int]:
        owner = Owner()
        command = ChildCommand(
            name="echo", module="echo_child", env={"PYTHONPATH": str(Path(__file__).parent)}
        )
        owner.supervisor = Supervisor(command, owner, Reply, backoff=Backoff(first_seconds=0.01))
        owner.supervisor.start()
        try:
            os.kill(await owner.pid(), signal.SIGKILL)
            await owner.pid()
            owner.order("echo", "hello")
            return await owner.replies.get(), owner.supervisor.lives
        finally:
            await owner.supervisor.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == ("hello", 2)
