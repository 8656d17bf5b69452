"""The measurement of folding errors: small for the real code, large for a broken one."""

from __future__ import annotations

import torch
from random_models import attention_layer, embeddings_of, random_gpt2

from lnattn import FirstLayer
from lnattn.attention.folding import fold
from lnattn_book.studies import identities


def test_errors_are_rounding():
    table = identities.table_of_errors([(16, 1), (32, 4)], length=12)
    assert len(table) == 4
    double = table[table.dtype == "float64"]
    single = table[table.dtype == "float32"]
    assert double[["attention", "output"]].to_numpy().max() < 1e-10
    assert 1e-10 < single[["attention", "output"]].to_numpy().max() < 1e-4


def test_a_wrong_fold_is_measured_as_wrong(monkeypatch):
    def without_beta(layer):
        ln = type(layer.ln)(layer.ln.gamma, torch.zeros_like(layer.ln.beta), layer.ln.eps)
        return fold(type(layer)(**{**vars(layer), "ln": ln}))

    monkeypatch.setattr(identities, "fold", without_beta)
    table = identities.table_of_errors([(16, 2)], length=12)
    assert table[["attention", "output"]].to_numpy().min() > 1e-3


def test_original_attention_is_the_models_own(gpt2):
    ids = torch.tensor([3, 1, 4, 1, 5])
    x = gpt2.transformer.wte.weight[ids] + gpt2.transformer.wpe.weight[:5]
    with torch.no_grad():
        reported = gpt2(ids[None], output_attentions=True).attentions[0][0]
    own = identities.original_attention(attention_layer(gpt2), x.detach())
    torch.testing.assert_close(own, reported, atol=1e-12, rtol=0)


def test_attention_error_sees_a_foreign_layer():
    one, other = random_gpt2(1), random_gpt2(2)
    ids = torch.arange(9)
    first = FirstLayer(embeddings_of(one), attention_layer(one))
    foreign = FirstLayer(embeddings_of(one), attention_layer(other))
    assert identities.attention_error(one, first, ids, torch.float64) < 1e-10
    assert identities.attention_error(one, foreign, ids, torch.float64) > 1e-3
