"""What this machine computes with, and settings that slow it down.

Times the matrix products of the studies anew, with torch and with NumPy, and keeps the faster of
the two for all later runs.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

EXAMPLES = """examples:
  lnattn doctor
  lnattn doctor --json
  LNATTN_PRODUCTS=numpy lnattn doctor     decide yourself who multiplies, for one run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def run(args: argparse.Namespace) -> None:
    found = examine()
    if args.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        if name != "warnings":
            print(f"{name.replace('_', ' '):<18} {_words(value)}")
    for line in found["warnings"]:
        print(f"warning: {line}")


def examine() -> dict:
    """The machine as a mapping: cores, threads, libraries, speeds, and warnings as sentences."""
    import numpy as np
    import torch
    from threadpoolctl import threadpool_info

    from lnattn.numerics import products

    mkl = "MKL there" if torch.backends.mkl.is_available() else "MKL absent"
    fresh, used = products.choose_anew(), products.chosen()
    blas = [
        f"{one['internal_api']} {one['version']}, kernels for {one.get('architecture', 'any')}"
        for one in threadpool_info()
        if one["user_api"] == "blas"
    ]
    return {
        "processor": products.processor(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "torch": f"{torch.__version__}, {mkl}",
        "numpy": f"{np.__version__}, {'; '.join(blas) or 'no BLAS that tells its name'}",
        "gflops_a_core": {name: round(speed, 1) for name, speed in fresh.gflops.items()},
        "products": f"{used.library} ({used.why})",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "warnings": warnings(torch.get_num_threads(), fresh.gflops, used.library),
    }


def cores() -> int:
    """Cores that this process may use: fewer than the machine has under taskset or a quota."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return own
    return own if quota == "max" else max(1, min(own, round(int(quota) / int(period))))


def warnings(threads: int, gflops: dict[str, float], library: str) -> list[str]:
    """Settings that make this machine slower than it is."""
    found = []
    if kernels := os.environ.get("OPENBLAS_CORETYPE"):
        found.append(
            f"OPENBLAS_CORETYPE={kernels} fixes which kernels NumPy multiplies with; unset it, "
            "unless NumPy crashes without it."
        )
    if threads < cores():
        found.append(
            f"torch uses {threads} of {cores()} cores; unset OMP_NUM_THREADS, or raise it."
        )
    if threads > cores():
        found.append(f"torch uses {threads} threads on {cores()} cores; set OMP_NUM_THREADS.")
    fastest = max(gflops, key=lambda name: gflops[name])
    if gflops[library] < 0.8 * gflops[fastest]:
        found.append(f"LNATTN_PRODUCTS={library}, but {fastest} is faster here; unset it.")
    return found


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items())
    return str(value)
