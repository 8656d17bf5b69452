"""Compiled kernels wherever they may be called from: forks, threads, pools, without a cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lnattn
from lnattn.compiled import in_threads, thread_count

#: Sixteen sets of keys, decided here first; then the same in the ways that are named.
_DECIDED = """
import multiprocessing, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from lnattn.selectability.decide import selectability

def share(seed):
    return selectability(np.random.default_rng(seed).normal(size=(300, 8))).unselectable

if __name__ == "__main__":
    seeds = range(6)
    here = [share(seed) for seed in seeds]
    for way in sys.argv[1:]:
        if way == "threads":
            with ThreadPoolExecutor(4) as pool:
                there = list(pool.map(share, seeds))
        elif way == "joblib":
            from joblib import Parallel, delayed
            there = Parallel(2)(delayed(share)(seed) for seed in seeds)
        else:
            with multiprocessing.get_context(way).Pool(1 if way == "forkserver" else 2) as pool:
                there = pool.map_async(share, seeds).get(timeout=100)
        assert there == here, way
        print(way)
"""


def run(folder, ways: list[str], **environment: str) -> subprocess.CompletedProcess:
    script = folder / "decide.py"
    script.write_text(_DECIDED)
    return subprocess.run(
        [sys.executable, str(script), *ways],
        env={**os.environ, "NUMBA_NUM_THREADS": "2", **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_selectability_in_a_forked_pool_and_in_threads(tmp_path):
    """Under the layer of numba's threads that two of ours could not enter, nor a forked child."""
    done = run(tmp_path, ["fork", "threads", "fork"], NUMBA_THREADING_LAYER="workqueue")
    assert (done.returncode, done.stdout.split()) == (0, ["fork", "threads", "fork"]), done.stderr


#: The main functions, here with two threads and then in a forked pool.
_FORKED = """
import multiprocessing
import numpy as np
import torch
import lnattn

def main_functions(seed):
    ids = np.random.default_rng(seed).integers(0, 2000, size=200).tolist()
    model = lnattn.load_first_layer("book-gpt2")
    folded = lnattn.fold(model.attention)
    terms = lnattn.six_terms(folded, model.embeddings, ids)
    vectors = lnattn.token_vectors(folded, model.embeddings)
    scores = vectors.scores(ids)
    x = model.embeddings.W_E[ids] + model.embeddings.W_P[: len(ids)]
    shares = lnattn.contributions(folded, model.embeddings, [ids])
    numbers = terms.ee.abs().mean(), scores.abs().mean(), folded.attention(x).max()
    return [*map(float, numbers), *shares.grand_mean().ravel()]

if __name__ == "__main__":
    torch.set_num_threads(2)
    here = [main_functions(seed) for seed in range(4)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        there = pool.map_async(main_functions, range(4)).get(timeout=100)
    assert np.allclose(here, there, rtol=1e-4), (here, there)
    print("the same")
"""


def test_the_main_functions_answer_after_a_fork(tmp_path):
    (tmp_path / "forked.py").write_text(_FORKED)
    done = subprocess.run(
        [sys.executable, "forked.py"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "the same"), done.stderr


def test_no_loop_takes_its_threads_from_numba():
    sources = list(Path(lnattn.__file__).parent.rglob("*.py"))
    asked = [path.name for path in sources if re.search(r"parallel=True|prange", path.read_text())]
    assert not asked
    assert len(sources) > 100


@pytest.mark.whole
def test_selectability_in_processes_that_begin_anew(tmp_path):
    ways = ["spawn", "forkserver", "joblib"]
    done = run(tmp_path, ways)
    assert (done.returncode, done.stdout.split()) == (0, ways), done.stderr


#: All modules with kernels, and one kernel from several threads at once.
_UNCACHED = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import lnattn.affinity.topk, lnattn.contribution.kl, lnattn.selectability.decide
from lnattn.affinity.auroc_kernel import aurocs_of_rows

def auroc(positive):
    ids, counts = np.array([positive], np.int32), np.array([5])
    scores = np.array([[3.0, 2.0, 1.0, 0.0]])
    return aurocs_of_rows(scores, np.array([0]), np.array([0, 1]), ids, counts)[0]

with ThreadPoolExecutor(4) as pool:
    print([round(3 * float(area)) for area in pool.map(auroc, range(4))])
"""


def test_where_nothing_can_be_cached_kernels_are_compiled_anew():
    """numba may use a folder that the user names, and nobody has named one."""
    nowhere = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator", "NUMBA_CACHE_DIR": ""}
    done = subprocess.run(
        [sys.executable, "-c", _UNCACHED],
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "[3, 2, 1, 0]\n"), done.stderr


def test_an_error_in_a_thread_is_raised_here():
    seen = []
    in_threads(seen.append, 3)
    assert sorted(seen) == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda thread: 1 / (thread - 1), 2)


def test_threads_are_not_more_than_jobs(monkeypatch):
    import numba

    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 4)
    assert [thread_count(jobs) for jobs in (0, 1, 3, 9)] == [1, 1, 3, 4]
