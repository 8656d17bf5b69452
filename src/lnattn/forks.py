"""After a fork: one thread in the child, where the parent's would be waited for for ever.

PyTorch's loops take their threads from a pool of OpenMP's, which a forked child inherits without
its threads (pytorch #17199). With one thread the child needs none of them; DataLoader's workers do
the same. Programs that are started (subprocess), and pools that spawn, are not concerned.
"""

from __future__ import annotations

import os

import torch


def _one_thread() -> None:
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_one_thread)
