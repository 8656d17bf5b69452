"""Which library multiplies: kept, told or measured; and no result depends on it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from random_models import attention_layer, embeddings_of, random_gpt2

from lnattn import fold
from lnattn.cli import main
from lnattn.commands import doctor
from lnattn.errors import ResultError
from lnattn.numerics import products
from lnattn.studies.affinity.topk import partners
from lnattn.studies.affinity.vectors import token_vectors
from lnattn.studies.position.sigma import inverse_sigma_bands


@pytest.fixture
def told(monkeypatch):
    return lambda name: monkeypatch.setenv("LNATTN_PRODUCTS", name)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LNATTN_CACHE", str(tmp_path))
    monkeypatch.delenv("LNATTN_PRODUCTS", raising=False)
    products._kept.cache_clear()
    yield tmp_path / "products.json"
    products._kept.cache_clear()


@pytest.mark.parametrize("library", products.LIBRARIES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (64, 16, 300)])
def test_the_product_is_the_product(told, library, shape):
    told(library)
    rows, inner, columns = shape
    a, b = torch.randn(rows, inner), torch.randn(columns, inner).T
    room = torch.full((rows + 2, columns), torch.nan)
    out = products.multiply(a, b, room[:rows])
    assert out.data_ptr() == room.data_ptr()
    assert torch.isnan(room[rows:]).all()
    torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-5)


def test_double_precision_stays_double(told):
    told("numpy")
    a, b = torch.randn(4, 6).double(), torch.randn(6, 5).double()
    assert (products.multiply(a, b, a.new_empty(4, 5)) - a @ b).abs().max() < 1e-14


def test_studies_do_not_depend_on_the_library(told):
    model = random_gpt2(seed=3).float()  # only float32 is multiplied by either
    folded, embeddings = fold(attention_layer(model)), embeddings_of(model)
    bands, found = [], []
    for library in products.LIBRARIES:
        told(library)
        bands.append(inverse_sigma_bands(embeddings, 1e-5))
        found.append(partners(token_vectors(folded, embeddings), k=5))
    for one in ("mean", "lower", "upper"):
        np.testing.assert_allclose(getattr(bands[0], one), getattr(bands[1], one), rtol=1e-5)
    np.testing.assert_allclose(found[0].scores, found[1].scores, rtol=1e-4, atol=1e-4)


def test_what_was_measured_is_kept(cache, monkeypatch):
    asked, speeds = [], {"torch": 1.0, "numpy": 2.0}
    monkeypatch.setattr(products, "measure", lambda: asked.append(1) or speeds)
    assert products.chosen().library == "numpy"
    products._kept.cache_clear()  # as another process would come
    assert products.chosen().library == "numpy"
    assert len(asked) == 1
    record = json.loads(cache.read_text())
    assert record["gflops"] == speeds
    cache.write_text(json.dumps({**record, "machine": {"processor": "another"}}))
    products._kept.cache_clear()
    products.chosen()
    assert len(asked) == 2


@pytest.mark.parametrize("text", ["", "[]", '{"machine": 1}', "{"])
def test_a_damaged_file_is_measured_over(cache, monkeypatch, text):
    monkeypatch.setattr(products, "measure", lambda: {"torch": 3.0, "numpy": 2.0})
    cache.write_text(text)
    assert products.chosen().library == "torch"
    assert json.loads(cache.read_text())["library"] == "torch"


def test_an_unknown_library_is_one_sentence(told):
    told("blis")
    with pytest.raises(ResultError, match="LNATTN_PRODUCTS is 'blis'; set it to torch or numpy"):
        products.chosen()


def test_the_doctor_says_what_it_found(cache, capsys, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["gflops_a_core"]) == set(products.LIBRARIES)
    assert min(found["gflops_a_core"].values()) > 0
    assert cache.is_file()
    assert any("OPENBLAS_CORETYPE=Haswell" in line for line in found["warnings"])
    assert main(["doctor"]) == 0
    assert "gflops a core" in capsys.readouterr().out


def test_the_doctor_warns_of_idle_and_crowded_cores(monkeypatch):
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    monkeypatch.setattr(doctor, "cores", lambda: 4)
    even = {"torch": 2.0, "numpy": 2.0}
    assert doctor.warnings(4, even, "torch") == []
    assert "2 of 4 cores" in doctor.warnings(2, even, "torch")[0]
    assert "8 threads on 4 cores" in doctor.warnings(8, even, "torch")[0]
    assert "numpy is faster" in doctor.warnings(4, {"torch": 1.0, "numpy": 2.0}, "torch")[0]
