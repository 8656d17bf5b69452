"""What other processes in test_counting.py take: importable there without the tests themselves."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from lnattn.text.corpora import Shard
from lnattn.text.counting import CountJob, count_shard

WORDS = [f"w{i}" for i in range(60)]
END = len(WORDS) + 1
OPTIONS = {"workers": 1, "shard_bytes": 1000, "progress": False}


def make_tokenizer() -> Tokenizer:
    vocabulary = {word: i for i, word in enumerate([*WORDS, "?", "<|endoftext|>"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def count_and_die_once(job: CountJob, shard: Shard) -> dict[str, Any]:
    """`count_shard`, but the first process to reach shard 3 is killed when its part is written."""
    record = count_shard(job, shard)
    marker = Path(job.folder).with_name("has-died")
    if shard.index == 3 and not marker.exists():
        marker.touch()
        job.part(shard).with_suffix(".json").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return record
