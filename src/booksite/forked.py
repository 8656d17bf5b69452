"""Kernels that are forks of a process which has imported the libraries that chapters import.

PyTorch, SciPy, pandas and Matplotlib take more than two seconds of a core to import, and a kernel
that starts from nothing takes them for every chapter. Here one process imports them (`kernels`),
each chapter is run by a fork of it (`in_processes`), and that fork's kernel is again a fork
(`Forked`). A fork has its parent's memory but not its threads; so what is forked from has computed
nothing and talked to no kernel yet.

Where systems' own libraries do not bear a fork (outside of Linux), all of it starts from nothing.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from ipykernel.kernelapp import IPKernelApp
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

#: Whether processes are forked on this system.
FORKS = sys.platform == "linux"
#: What most chapters import and takes long, and nothing that asks whether it is in a kernel when it
#: is imported, as tqdm's bars do (and with them huggingface_hub, and the package's models).
MODULES = (
    "matplotlib.pyplot",
    "numba",
    "pandas",
    "scipy.optimize",
    "scipy.stats",
    "seaborn",
    "torch",
)
#: How the command begins that starts IPython's kernel (`booksite.settings`).
_IPYTHON = [sys.executable, "-m", "ipykernel_launcher"]
_CONTEXT: Any = multiprocessing.get_context("fork" if FORKS else "spawn")
Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def kernels() -> Iterator[None]:
    """Inside, libraries are imported, and kernels are forks that have them (on Linux).

    How many threads the libraries use is settled by the environment of the first such time.
    """
    if not FORKS:
        yield
        return
    for name in MODULES:
        import_module(name)
    # The one thing that pandas asks: in a terminal it shows as many columns as fit.
    import_module("pandas").set_option("display.max_columns", 20)
    factory = KernelProvisionerFactory.instance()
    entry = EntryPoint("forked", f"{__name__}:{Forked.__name__}", factory.GROUP_NAME)
    factory.provisioners[entry.name] = entry
    usual = factory.default_provisioner_name
    factory.default_provisioner_name = entry.name
    try:
        yield
    finally:
        factory.default_provisioner_name = usual


def in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Generator[tuple[Item, Result | None], None, None]:
    """Each item with what `work` gives for it, from a process of its own, as they end.

    jobs: so many at a time. None stands for the result of a process that ended without one. Where
    the caller takes no more, no other item is begun, and those under way are waited for.
    """
    waiting = list(reversed(items))
    running: dict[Connection, tuple[Item, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                item = waiting.pop()
                receiver, sender = _CONTEXT.Pipe(duplex=False)
                # A fork has the ends to read from, too: unless it closes them, it would wait for
                # ever for somebody to read what it sends, where this process has been killed.
                inherited = [receiver, *running] if _CONTEXT.get_start_method() == "fork" else []
                process = _CONTEXT.Process(target=_send, args=(sender, inherited, work, item))
                process.start()
                sender.close()  # the process has its own: when that is closed, so is the pipe
                running[receiver] = item, process
            ended: Any = wait(list(running))
            for receiver in ended:
                item, process = running[receiver]
                result = _received(receiver)
                process.join()
                del running[receiver]
                yield item, result
    finally:
        for receiver, (_, process) in running.items():
            _received(receiver)  # unread, it could not end
            process.join()


def _send(
    sender: Connection, inherited: list[Connection], work: Callable[[Item], Result], item: Item
) -> None:
    for receiver in inherited:
        receiver.close()
    sender.send(work(item))


def _received(receiver: Connection) -> Any:
    with receiver:
        try:
            return receiver.recv()
        except EOFError:
            return None


class Forked(LocalProvisioner):
    """Starts a kernel as a fork of this process, in place of an interpreter of its own."""

    async def launch_kernel(self, cmd: list[str], **options: Any) -> KernelConnectionInfo:
        """Fork; a kernel that is not IPython's in this interpreter starts as it says itself.

        options: of `subprocess.Popen`; for a fork the environment and the folder count.
        """
        if cmd[: len(_IPYTHON)] != _IPYTHON:
            return await super().launch_kernel(cmd, **options)
        self.cwd = options["cwd"]
        process: Any = _Process(cmd[len(_IPYTHON) :], options["env"], options["cwd"])
        self.process = process
        self.pid = self.pgid = process.pid
        return self.connection_info


class _Process:
    """A forked kernel, with what Jupyter asks a `subprocess.Popen` for."""

    stdin = stdout = stderr = None

    def __init__(self, arguments: list[str], environment: dict[str, str], folder: str) -> None:
        self._process = _CONTEXT.Process(target=_kernel, args=(arguments, environment, folder))
        self._process.start()
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.exitcode

    wait = poll  # which Jupyter calls until it gives a status, and then this

    def send_signal(self, signum: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, signum)


def _kernel(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """Be a kernel, in a fresh fork."""
    os.setsid()  # a Ctrl-C of the terminal is the build's, and a signal to the group the kernel's
    # What the loop has set that this was forked from.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.set_event_loop(None)
    os.environ.update(environment)
    os.chdir(folder)
    # It ends when its parent does; ipykernel reads that from the environment when it is imported.
    parent = f"--IPKernelApp.parent_handle={os.getppid()}"
    IPKernelApp.launch_instance(argv=[*arguments, parent])
