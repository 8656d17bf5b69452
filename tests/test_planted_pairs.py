"""What is planted in the rehearsed GPT-2 is found there, and not in noise."""

from __future__ import annotations

import pytest
from narrow_gpt2 import narrow_gpt2
from planted_pairs import JOINS, SAME, plant

import lnattn
from lnattn.attention.vectors import same_token_z, token_vectors
from lnattn_book.studies.table1 import pair_heads, table1_ranks


@pytest.mark.parametrize("planted", [plant, None])
def test_the_rehearsed_model_has_the_pairs_that_were_planted(planted, tmp_path):
    model = lnattn.load_first_layer(narrow_gpt2(tmp_path / "gpt2", d_head=6, planted=planted))
    vectors = token_vectors(lnattn.fold(model.attention), model.embeddings)
    table = table1_ranks(vectors, model.tokenizer, draws=20)
    z = same_token_z(vectors).mean(dim=1)
    if planted:
        assert table["rank here"].tolist() == table["rank"].tolist()
        assert pair_heads(table) == [JOINS]
        assert z.argmax() == SAME
        assert z.max() > 2
    else:
        assert table["rank here"].min() > 10
        assert z.abs().max() < 1
