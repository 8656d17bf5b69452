"""The explorer in a real browser, from a file: right numbers, hostile tokens, keyboard.

Skipped, by name, where no Chromium is installed.
"""

from __future__ import annotations

import functools
import shutil
import unicodedata
from dataclasses import replace

import accessibility
import numpy as np
import pytest
import torch
from hostile import HOSTILE, explored, tiny
from random_models import attention_layer, embeddings_of, random_gpt2

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.explorer import publishing
from booksite.explorer.data import LEAST_COUNT, strongest_view
from booksite.explorer.first_layer import TOLERANCE, layer_scripts
from booksite.explorer.scripts import scripts, sentence_script
from booksite.explorer.texts import script, token_texts
from booksite.explorer.views import PAIRS, curve_scripts, view_scripts
from booksite.explorer.written import rotary
from lnattn import distance_terms, fold, load_first_layer, six_terms
from lnattn.attention.distance import DISTANCE_TERMS, DistanceTerms
from lnattn.attention.relative import mean_vectors
from lnattn.attention.terms import TERMS
from lnattn.book.affinity import counts_and_source
from lnattn.studies.affinity import token_vectors
from lnattn.studies.contribution.study import kl_of_removal
from lnattn.studies.position.bias import position_bias
from lnattn.studies.position.sigma import inverse_sigma_bands
from lnattn.weights import FirstLayer

PAGE = """<!doctype html>
<html lang="en" data-theme="light">
<head><meta charset="utf-8"><title>Explorer</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  :root { --pst-color-text-base: #222832; --pst-color-background: #fff;
    --pst-color-surface: #f3f4f5; --pst-color-text-muted: #48566b; --pst-color-border: #d1d5da;
    --pst-font-family-monospace: monospace; }
  html[data-theme="dark"] { --pst-color-text-base: #ced6dd; --pst-color-background: #14181e;
    --pst-color-surface: #29313d; --pst-color-text-muted: #9ca4af; --pst-color-border: #48566b; }
  body { background: var(--pst-color-background); color: var(--pst-color-text-base); margin: 8px; }
</style>
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
    else if (Date.now() - begun > 10000) fail(new Error('the explorer does not appear'));
    else setTimeout(look, 10);
  })();
})"""


def page_of(*parts: str) -> str:
    """A page with some parts of the explorer, as the book's pages load them."""
    places = [
        f'<h2>{one}</h2><div class="token-explorer" data-part="{one}"></div>' for one in parts
    ]
    names = dict.fromkeys(name for one in parts for name in publishing.PARTS[one][1])
    loads = [f'<script defer src="explorer/{name}?v=1"></script>' for name in names]
    return PAGE % ("\n".join(places), "\n".join(loads))


PAGES = {
    "tokens": ("heads", "strongest", "pair"),
    "sentence": ("sentence", "compare", "curves"),
    "distance": ("distance",),
    "widget": ("widget",),
}
#: As `TOLERANCE`, of the rotary model: what its page is told when it is made.
ROTARY: dict[str, float] = {}
ABOUT = {"name": "<i>tiny</i>", "weights": "0123", "counts": "random", "counted": 546}


@pytest.fixture(scope="module")
def models():
    return {"tiny": explored(), "some": explored(frequent=14), "own": explored(listed=False)}


@pytest.fixture(scope="module")
def book_model():
    return load_first_layer("book-gpt2")


@pytest.fixture(scope="module")
def book_llama():
    return load_first_layer("book-llama")


@pytest.fixture(scope="module")
def opening(book_model):
    return strongest_view(book_model, publishing.sentences())


@pytest.fixture(scope="module")
def other_model(book_model):
    """A random layer without a causal mask, with the embedded model's vocabulary."""
    module = random_gpt2(11, vocab=8192, context=32)
    attention = replace(attention_layer(module), causal=False)
    attention = replace(attention, W_Q=attention.W_Q / 30, b_Q=attention.b_Q / 30)
    about = {"name": "other"}
    return FirstLayer(embeddings_of(module), attention, book_model.tokenizer, about)


@pytest.fixture(scope="module")
def site(models, book_model, book_llama, other_model, opening, tmp_path_factory):
    """A folder with pages of all parts, two models of hostile tokens, and the embedded one."""
    place = tmp_path_factory.mktemp("site")
    shutil.copytree(publishing.ASSETS, place / "explorer")
    texts = token_texts(book_model.tokenizer, 8192)
    layer, _ = tiny()
    written = {
        name: dict(scripts(model, name, ABOUT)) | dict(view_scripts(layer, model, name))
        for name, model in models.items()
    }
    # The embedded model's layer; the page of tokens sees the hostile vocabulary's own.
    written["own"] |= dict(layer_scripts(replace(layer, tokenizer=book_model.tokenizer), "own"))
    written["book-gpt2"] = {
        **dict(layer_scripts(book_model, "book-gpt2")),
        **dict(curve_scripts(fold(book_model.attention), book_model.embeddings, "book-gpt2")),
        "tokens.js": script("book-gpt2/tokens", texts),
        "opening.js": sentence_script(opening, "book-gpt2/opening"),
    }
    # Another model, of which the browser has the examples alone: not causal, with other heads.
    written["other"] = {
        **dict(curve_scripts(fold(other_model.attention), other_model.embeddings, "other")),
        **{
            f"sentence-{i}.js": sentence_script(
                strongest_view(other_model, [text]), f"other/sentence-{i}"
            )
            for i, text in enumerate(publishing.sentences())
        },
    }
    written["book-llama"], about_llama = rotary(book_llama, "book-llama")
    ROTARY.update(about_llama["tolerance"])
    for name, files in written.items():
        (place / "explorer" / name).mkdir()
        for file, text in files.items():
            (place / "explorer" / name / file).write_text(text, encoding="ascii")
    pages = {"models": ["tiny", "some", "own"], "sentences": ["other", "book-gpt2"]}
    heads = {"book-gpt2": 8}
    for page, names in pages.items():
        listed = [
            {"name": name, "folder": name, "version": "abc", "why": "for <b>tests</b>",
             "computed": name in ("own", "book-gpt2"), "heads": heads.get(name, 3),
             "tolerance": TOLERANCE}
            for name in names
        ]  # fmt: skip
        twin = {**listed[-1], "name": "book-llama", "folder": "book-llama", **about_llama}
        about = {"rotary": [twin] if page == "sentences" else [], "absent": []}
        text = script("models", {"models": listed, **about, **publishing.shared_facts()})
        (place / "explorer" / f"{page}.js").write_text(text, encoding="ascii")
    for name, parts in PAGES.items():
        folder = place if name == "tokens" else place / "of-sentences"
        if folder != place and not folder.exists():
            folder.mkdir()
            shutil.copytree(place / "explorer", folder / "explorer")
            shutil.copy(folder / "explorer" / "sentences.js", folder / "explorer" / "models.js")
        (folder / f"{name}.html").write_text(page_of(*parts), encoding="utf-8")
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
        if not event["request"]["url"].startswith(site.as_uri())
    ]
    dialogs = tab.of("Page.javascriptDialogOpening")
    tab.close()
    assert not errors
    assert not elsewhere
    assert not dialogs


def show(tab, site, hash_="", page="tokens") -> None:
    folder = site if page == "tokens" else site / "of-sentences"
    tab.go("about:blank")
    tab.go(f"{folder.as_uri()}/{page}.html{hash_}")
    tab.evaluate(READY)


def move(tab, hash_: str) -> None:
    """Change the address within the page, and wait until all parts have followed."""
    tab.evaluate(
        "document.querySelectorAll('.token-explorer').forEach(p => delete p.dataset.state);"
        f"location.hash = {hash_!r}; 0"
    )
    tab.evaluate(READY)


def press(tab, *keys: str) -> None:
    codes = {"ArrowDown": 40, "ArrowUp": 38, "Enter": 13, "Escape": 27, "Tab": 9}
    for key in keys:
        for kind in ("rawKeyDown", "keyUp"):
            tab.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
            )


def write(tab, text: str) -> None:
    tab.evaluate("document.querySelector('#explorer-token').focus()")
    tab.evaluate("document.activeElement.select()")
    tab.call("Input.insertText", text=text)
    tab.evaluate("new Promise(done => setTimeout(done, 300))")  # the vocabulary may have to come


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


SEEN = """(() => {
  const all = selector => [...document.querySelectorAll(selector)];
  return {
    chosen: document.querySelector('.chosen').textContent,
    heads: all('[data-part=heads] .head').map(head => [...head.querySelectorAll('ol')].map(list =>
      [...list.children].map(item => ['.token', '.times', '.score'].map(part =>
        item.querySelector(part)?.textContent ?? '')))),
    auroc: all('[data-part=heads] .auroc').map(e => e.textContent),
    usual: all('.usual').map(e => e.textContent),
    markup: all('.token-explorer :is(script, img, iframe, b, i:not(.term i))').length,
    harmed: window.harmed ?? null,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  };
})()"""


def test_every_hostile_token_is_shown_as_text_with_its_true_partners(tab, site, models) -> None:
    model = models["tiny"]
    step = value_of_step(model)
    show(tab, site)
    for token, text in enumerate(HOSTILE):
        move(tab, f"#model=tiny&token={token}")
        found = tab.evaluate(SEEN)
        assert found["chosen"] == seen(text)
        assert (found["harmed"], found["markup"]) == (None, 0)
        assert found["overflow"] <= 0, f"{text!r} pushes the page wider than a phone"
        table = model.counts.bigrams.toarray()
        for head, lists in enumerate(found["heads"]):
            assert f"{model.study.auroc[head, token]:.3f} for this token" in found["auroc"][head]
            sides = [(model.keys, table[:, token]), (model.queries, table[token])]
            for listed, (right, times) in zip(lists, sides, strict=True):
                ids = right.ids[head, token]
                assert [name for name, _, _ in listed] == [seen(HOSTILE[i]) for i in ids]
                for (_, count, score), i, exact in zip(
                    listed, ids, right.scores[head, token], strict=True
                ):
                    assert count in ("", f"{times[i]}×")
                    assert count or times[i] < LEAST_COUNT
                    assert float(score.replace("−", "-")) == pytest.approx(exact, abs=step + 0.051)
        usual = found["usual"]
        assert len(usual) == (3 if model.main[token] >= 0 else 0)
        for head, line in enumerate(usual):
            assert line.endswith(f": rank {model.main_rank[token, head]}")


def value_of_step(model) -> float:
    """What one step of the scores is worth, as they are written."""
    return max(float(np.abs(one.scores).max()) for one in (model.keys, model.queries)) / 2000


def test_the_browser_finds_the_partners_that_python_finds(tab, site, models) -> None:
    """Of a model whose embeddings it has; five on each side."""
    layer, _ = tiny()
    vectors = token_vectors(fold(layer.attention), layer.embeddings)
    table = (vectors.queries @ vectors.keys.mT).numpy()
    for token in (3, 40):
        show(tab, site, f"#model=own&token={token}&key=7")
        found = tab.evaluate(SEEN)
        for head, lists in enumerate(found["heads"]):
            for listed, row in zip(lists, (table[head, token], table[head, :, token]), strict=True):
                order = np.argsort(-row)[:5]
                scores = [float(score.replace("−", "-")) for _, _, score in listed]
                np.testing.assert_allclose(scores, row[order], atol=0.071)
                # Two whose scores differ less than the numbers are exact may change places.
                best = np.flatnonzero(row > row.max() - 2 * TOLERANCE["terms"])
                assert listed[0][0] in [seen(HOSTILE[token]) for token in best]
        pair = tab.evaluate(PAIR)
        right = models["own"]
        for head, (score, rank, usual) in enumerate(pair["rows"]):
            assert float(score.replace("−", "-")) == pytest.approx(table[head, token, 7], abs=0.071)
            assert int(rank) == 1 + (table[head, token] > table[head, token, 7]).sum()
            assert usual == (str(right.main_rank[token, head]) if right.main[token] >= 0 else "–")


PAIR = """(() => {
  const place = document.querySelector('[data-part=pair]');
  return {
    rows: [...place.querySelectorAll('tbody tr')].map(row =>
      [...row.querySelectorAll('td')].map(cell => cell.textContent)),
    words: place.querySelector('.controls + p').textContent,
    query: place.querySelector('#explorer-query').value,
    key: place.querySelector('#explorer-key').value,
  };
})()"""


def test_a_pair_tells_its_count_and_what_the_lists_know(tab, site, models) -> None:
    model = models["tiny"]
    table = model.counts.bigrams.toarray()
    usual = int(np.flatnonzero(model.main >= 0)[0])
    show(tab, site, f"#model=tiny&token={usual}")
    found = tab.evaluate(PAIR)
    main = int(model.main[usual])
    assert (found["query"], found["key"]) == (seen_plain(usual), seen_plain(main))
    assert f"{table[main, usual]} times; it is the usual predecessor" in found["words"]
    ranks = [rank for _, rank, _ in found["rows"]]
    assert ranks == [str(rank) for rank in model.main_rank[usual]]
    never = int(np.flatnonzero(table[:, usual] < 2)[0])
    move(tab, f"#model=tiny&token={usual}&key={never}")
    found = tab.evaluate(PAIR)
    assert f"fewer than {LEAST_COUNT} times; its usual predecessor is" in found["words"]
    for head, (score, rank, _) in enumerate(found["rows"]):
        listed = model.keys.ids[head, usual].tolist()
        assert rank == (str(listed.index(never) + 1) if never in listed else "beyond 3")
        assert (score == "–") == (never not in listed)


def seen_plain(token: int) -> str:
    """A token as the page writes it in a box, for tokens of visible signs."""
    return HOSTILE[token].replace(" ", "␣").replace("\n", "⏎")


def test_the_list_of_suggestions_with_keys_alone(tab, site) -> None:
    show(tab, site)
    state = """(() => { const box = document.querySelector('#explorer-token');
      const options = [...document.querySelectorAll('[role=option]')];
      return {open: box.getAttribute('aria-expanded'),
        listed: options.map(e => e.textContent),
        active: document.getElementById(box.getAttribute('aria-activedescendant'))?.textContent,
        selected: options.filter(e => e.ariaSelected === 'true').length,
        status: document.querySelector('.search [role=status]').textContent,
        value: box.value, hash: location.hash, markup: document.querySelectorAll(
          '[role=listbox] :is(script, img, b)').length, harmed: window.harmed ?? null}; })()"""
    write(tab, "city")
    found = tab.evaluate(state)
    assert (found["open"], found["listed"]) == ("true", ["city", "␣city", "City"])
    assert found["status"] == "3 tokens"
    press(tab, "ArrowDown", "ArrowDown")
    found = tab.evaluate(state)
    assert (found["active"], found["selected"]) == ("␣city", 1)
    press(tab, "ArrowUp", "ArrowUp")
    assert tab.evaluate(state)["active"] == "City"
    press(tab, "ArrowDown", "ArrowDown", "Enter")
    found = tab.evaluate(state)
    assert (found["open"], found["value"]) == ("false", "␣city")
    assert f"token={HOSTILE.index(' city')}" in found["hash"]
    write(tab, "<")
    found = tab.evaluate(state)
    assert "<script>window.harmed=1</script>" in found["listed"]
    assert (found["markup"], found["harmed"]) == (0, None)
    press(tab, "Escape")
    assert tab.evaluate(state)["open"] == "false"
    write(tab, "#14")
    press(tab, "Enter")
    assert "token=14" in tab.evaluate(state)["hash"]
    write(tab, "no such token")
    found = tab.evaluate(state)
    missing = "“no such token” is not in this list of tokens."
    assert (found["open"], found["status"]) == ("false", missing)
    press(tab, "Enter")
    assert "token=14" in tab.evaluate(state)["hash"]
    move(tab, tab.evaluate(state)["hash"] + "&sort=rank")
    assert tab.evaluate(state)["value"] == "no such token", "what is being typed is not replaced"
    tab.evaluate("document.activeElement.blur()")
    found = tab.evaluate(state)
    assert (found["status"], found["value"]) == (missing, "⟨U+0007⟩")
    assert HOSTILE[14] == "\x07"


VIEW = """({
  text: document.querySelector('#explorer-text').value,
  head: document.querySelector('[name=explorer-head]:checked').value,
  query: document.querySelector('.words [aria-pressed=true]').id,
  shows: document.querySelector('#explorer-show').value,
  kept: [...document.querySelectorAll('.switches input:checked')].map(e => e.id.slice(14)),
  settings: [...document.querySelectorAll('.settings [type=checkbox]')].map(e => e.checked),
  first: document.querySelector('#explorer-shift').value,
  words: [...document.querySelectorAll('.words button')].map(e => e.textContent),
  rows: document.querySelectorAll('[data-part=sentence] tbody tr').length,
  said: document.querySelector('.hint').textContent,
})"""


def test_an_address_brings_others_to_the_same_view(tab, site, book_model) -> None:
    where = "#text=A+dog+saw+a+cat&head=1&query=3&show=pp&without=e.p&sigma=no&shift=7&swap=2.5"
    show(tab, site, where, "sentence")
    ids = [8191, *book_model.tokenizer("A dog saw a cat")["input_ids"]]
    ids[2], ids[5] = ids[5], ids[2]
    words = [text.replace(" ", "␣") for text in token_texts_of(book_model, ids)]
    assert tab.evaluate(VIEW) == {
        "text": "A dog saw a cat",
        "head": "1",
        "query": "explorer-word-3",
        "shows": "pp",
        "kept": ["ee", "ep", "pe", "pp"],
        "settings": [False, True, True],
        "first": "7",
        "words": words,
        "rows": 4,
        "said": f"{len(ids)} tokens of book-gpt2, the first by the model itself.",
    }
    tab.evaluate("document.querySelector('#explorer-word-5').click()")
    tab.evaluate("document.querySelector('#explorer-keep-e').click()")
    assert "query=5" in tab.evaluate("location.hash")
    assert "without=p" in tab.evaluate("location.hash")
    nonsense = "#text=a&head=-1&query=1e9&show=zz&without=zz.ee&shift=-3&swap=0.9"
    move(tab, nonsense)
    found = tab.evaluate(VIEW)
    assert (found["kept"], found["first"], found["shows"]) == (
        ["ep", "pe", "pp", "e", "p"], "0", "attention",
    )  # fmt: skip
    move(tab, "#some-heading-of-the-page")
    assert tab.evaluate(VIEW)["text"] == "a"


def token_texts_of(model, ids) -> list[str]:
    every = token_texts(model.tokenizer, 8192)
    return [every[i] for i in ids]


def test_an_address_with_a_model_that_is_not_there(tab, site) -> None:
    show(tab, site, "#model=%3Cimg%20src=x%20onerror=harmed=1%3E&token=2")
    assert "names a model that this build lacks" in tab.evaluate(
        "document.querySelector('.about').textContent"
    )
    assert tab.evaluate(SEEN)["harmed"] is None


def test_the_way_back_leads_through_tokens_and_not_through_every_setting(tab, site) -> None:
    def follow(action: str) -> dict:
        tab.evaluate(
            "document.querySelectorAll('.token-explorer').forEach(p => delete p.dataset.state);"
            f"{action}; 0"
        )
        tab.evaluate(READY)
        return tab.evaluate(SEEN)

    show(tab, site, "#model=tiny&token=3&head=2")
    first, steps = tab.evaluate(SEEN)["chosen"], tab.evaluate("history.length")
    sort = "Object.assign(document.querySelector('#explorer-sort'), {value: 'auroc'})"
    follow(f"{sort}.dispatchEvent(new Event('change'))")
    assert tab.evaluate("history.length") == steps, "an order is a setting, no step"
    second = follow(
        "[...document.querySelectorAll('[data-part=heads] .head li button')]"
        ".find(e => e.title !== 'Show 3' && e.textContent !== "
        "document.querySelector('.chosen').textContent).click()"
    )["chosen"]
    assert second != first
    assert tab.evaluate("history.length") == steps + 1
    assert "head=2" in tab.evaluate("location.hash"), "the other parts keep their places"
    assert follow("history.back()")["chosen"] == first
    assert follow("history.forward()")["chosen"] == second


def test_a_rarer_token_says_that_it_is_in_no_list(tab, site, models) -> None:
    some = models["some"]
    rare = np.setdiff1d(np.flatnonzero(some.main >= 0), some.keys.tokens)
    show(tab, site, f"#model=some&token={rare[0]}&key=0")
    words = tab.evaluate("document.querySelector('.view').textContent")
    assert f"not in this list: they are there for {len(some.keys.tokens)} tokens" in words
    found = tab.evaluate(SEEN)
    assert found["heads"] == [[], [], []]
    assert len(found["usual"]) == 3
    assert {row[0] for row in tab.evaluate(PAIR)["rows"]} == {"–"}


TABLE = """(() => {
  const texts = selector => [...document.querySelectorAll('[data-part=sentence] ' + selector)].map(
    one => one.textContent);
  return {
    scores: [...document.querySelectorAll('[data-part=sentence] tbody tr')].map(row =>
      [...row.querySelectorAll('td')].map(cell => cell.textContent)),
    shifts: texts('tfoot td'),
    bars: texts('.bars .share'),
  };
})()"""


@functools.cache
def exactly(model):
    """A model's folded layer and embeddings, in float64; the mean vectors of a rotary one."""
    model = model.to(torch.float64)
    folded = fold(model.attention)
    if model.name != "book-llama":
        return folded, model.embeddings, None
    unigrams = torch.as_tensor(counts_and_source(model)[0].unigrams)
    return folded, model.embeddings, mean_vectors(folded, model.embeddings, unigrams)


def terms_of(model, ids, shift=0):
    """The six terms in double precision, or the four, split as the page splits them."""
    folded, embeddings, means = exactly(model)
    places = list(range(shift, shift + len(ids)))
    if means is None:
        return six_terms(folded, embeddings, ids, places)
    return distance_terms(folded, embeddings, ids, places, means)


def compare(tab, model, ids, head, query, without="", centred=True, shift=0) -> None:
    """The table, the bars and the shifts, against the package in double precision."""
    terms = terms_of(model, ids, shift)
    folded, names = terms.folded, terms.names
    most = ROTARY if isinstance(terms, DistanceTerms) else TOLERANCE
    last = query + 1 if folded.causal else len(ids)
    found = tab.evaluate(TABLE)
    shown = np.array(
        [[float(cell.replace("−", "-").rstrip(" %")) for cell in row] for row in found["scores"]]
    )
    row = slice(0, last)

    def of(values) -> np.ndarray:
        values = values[head, query, row].numpy()
        return values - values.mean() if centred else values

    for place, name in enumerate(names):
        np.testing.assert_allclose(shown[:, 2 + place], of(terms[name]), atol=0.051 + most["terms"])
    kept = sum(terms[name] for name in names if name not in without.split("."))
    np.testing.assert_allclose(shown[:, 1], of(kept), atol=0.051 + len(names) * most["terms"])
    attention = (kept[head, query, row] / folded.scale).softmax(-1).numpy()
    np.testing.assert_allclose(shown[:, 0] / 100, attention, atol=0.00051 + most["attention"])
    assert [float(cell.rstrip(" %")) for cell in found["bars"]] == shown[:, 0].tolist()
    scores = terms.scores()[head, query, row] / folded.scale
    for name, text in zip(names, found["shifts"][1:], strict=True):
        right = float(kl_of_removal(scores, terms[name][head, query, row] / folded.scale))
        assert float(text) == pytest.approx(right, abs=0.0051 + most["kl"])


@pytest.mark.parametrize("without", ["", "ee", "pp.e"])
def test_the_first_sentence_is_that_of_the_package(tab, site, book_model, opening, without) -> None:
    show(tab, site, f"#without={without}", "sentence")
    found = tab.evaluate(VIEW)
    assert (found["text"], int(found["head"])) == (opening.text, opening.head)
    assert found["query"] == f"explorer-word-{opening.query}"
    compare(tab, book_model, list(opening.ids), opening.head, opening.query, without)
    assert tab.evaluate("lnattnExplorer.load('book-gpt2/layer', 'abc').done ?? null") is None


@pytest.mark.parametrize("text", ["The city of New York", "Été à Paris: 東京 👩‍👩‍👧!", "x"])
def test_any_sentence_that_is_typed(tab, site, book_model, text) -> None:
    show(tab, site, "#shift=3&centre=no", "sentence")
    tab.evaluate("document.querySelector('#explorer-text').focus()")
    tab.evaluate("document.activeElement.select()")
    tab.evaluate("delete document.querySelector('.token-explorer').dataset.state; 0")
    tab.call("Input.insertText", text=text)
    tab.evaluate(READY)
    ids = [8191, *book_model.tokenizer(text)["input_ids"]]
    assert tab.evaluate(VIEW)["rows"] == len(ids)
    head = int(tab.evaluate(VIEW)["head"])
    compare(tab, book_model, ids, head, len(ids) - 1, centred=False, shift=3)


SIDES = """[...document.querySelectorAll('[data-part=compare] .side')].map(side => ({
  words: side.querySelector('.caption').textContent,
  bars: [...side.querySelectorAll('.share')].map(e => parseFloat(e.textContent)),
  moved: [...document.querySelectorAll('[data-part=compare] tbody tr')].map(row =>
    parseFloat([...row.querySelectorAll('td')][
      [...side.parentNode.children].indexOf(side)].textContent)),
}))"""


def test_an_example_in_another_model(tab, site, book_model, other_model, opening) -> None:
    """Its numbers, and beside it the embedded model's at the same word."""
    show(tab, site, "#of=other&text=A+dog+saw+a+cat,+and+the+cat+saw+the+dog.&head=2", "sentence")
    text = "A dog saw a cat, and the cat saw the dog."
    ids = [8191, *book_model.tokenizer(text)["input_ids"]]
    found = tab.evaluate(VIEW)
    assert found["said"].endswith("tokens of other, the first and the last by the model itself.")
    query = int(found["query"].removeprefix("explorer-word-"))
    compare(tab, other_model, ids, 2, query)
    assert tab.evaluate("document.querySelector('#explorer-shift').disabled")
    sides = tab.evaluate(SIDES)
    assert [side["words"].rsplit(" of ", 1)[1] for side in sides] == ["other", "book-gpt2"]
    move(tab, f"#of=other&text={text.replace(' ', '+')}&head=2&query=4&beside=book-gpt2.5")
    for side, model, head in zip(
        tab.evaluate(SIDES), (other_model, book_model), (2, 5), strict=True
    ):
        terms = six_terms(fold(model.attention), model.embeddings, ids)
        assert "␣a looks in head" in side["words"]
        keys = slice(0, None if model is other_model else 5)
        right = 100 * terms.attention()[head, 4, keys].numpy()
        np.testing.assert_allclose(side["bars"], right, atol=0.051 + 100 * TOLERANCE["attention"])
        scores = terms.scores()[head, 4, keys] / terms.folded.scale
        for name, moved in zip(TERMS, side["moved"], strict=True):
            right = kl_of_removal(scores, terms[name][head, 4, keys] / terms.folded.scale)
            assert moved == pytest.approx(float(right), abs=0.0051 + TOLERANCE["kl"])
    move(tab, "#of=other&text=Something+else")
    assert "Of other only the examples are known" in tab.evaluate(VIEW)["said"]
    sides = tab.evaluate(SIDES)
    assert {side["words"].rsplit(" of ", 1)[1] for side in sides} == {"book-gpt2"}
    assert sides[0]["bars"] != sides[1]["bars"]


# ---- Rotary positions ----------------------------------------------------------------------------


def test_a_rotary_model_reads_any_sentence(tab, site, book_llama) -> None:
    """It opens where one term moves attention most; then every control."""
    text = "The city of New York, 東京!"
    ids = [8191, *book_llama.tokenizer(text)["input_ids"]]
    terms = terms_of(book_llama, ids)
    show(tab, site, f"#of=book-llama&text={text.replace(' ', '+')}", "sentence")
    found = tab.evaluate(VIEW)
    head, query = int(found["head"]), int(found["query"].removeprefix("explorer-word-"))
    scores = terms.scores().masked_fill(torch.ones(len(ids), len(ids)).triu(1).bool(), -torch.inf)
    moved = torch.stack(
        [
            kl_of_removal(scores / terms.folded.scale, terms[n] / terms.folded.scale)
            for n in terms.names
        ]
    ).amax(dim=0)
    assert float(moved[head, query]) > float(moved.max()) - 2 * ROTARY["kl"]
    compare(tab, book_llama, ids, head, query)
    titles = tab.evaluate(
        "[...document.querySelectorAll('thead .term sup')].map(e => e.textContent)"
    )
    assert titles[:4] == list(DISTANCE_TERMS)
    assert "divide by ρ" in tab.evaluate("document.querySelector('.settings').textContent")
    for head, query, without in ((0, 3, "ee.d"), (7, len(ids) - 1, "ed")):
        move(
            tab, f"#of=book-llama&text={text}&head={head}&query={query}&without={without}&centre=no"
        )
        compare(tab, book_llama, ids, head, query, without, centred=False)


def test_where_a_sentence_begins_changes_nothing_for_a_rotary_model(tab, site, book_llama) -> None:
    text = "A dog saw a cat"
    ids = [8191, *book_llama.tokenizer(text)["input_ids"]]
    address = f"#of=book-llama&text={text.replace(' ', '+')}&head=2&query=4"
    for more, shift in (("", 0), ("&shift=50", 50)):
        show(tab, site, address + more, "sentence")
        compare(tab, book_llama, ids, 2, 4, shift=shift)
        # The package agrees that it would be the same.
        compare(tab, book_llama, ids, 2, 4)
    swapped = [*ids]
    swapped[2], swapped[4] = swapped[4], swapped[2]
    move(tab, address + "&swap=2.4")
    compare(tab, book_llama, swapped, 2, 4)


def test_two_kinds_of_positions_side_by_side(tab, site, book_model, book_llama) -> None:
    text = "A dog saw a cat"
    ids = [8191, *book_model.tokenizer(text)["input_ids"]]
    show(
        tab, site, f"#text={text.replace(' ', '+')}&head=1&query=4&beside=book-llama.6", "sentence"
    )
    sides = tab.evaluate(SIDES_BY_TERM)
    for side, model, head in zip(sides, (book_model, book_llama), (1, 6), strict=True):
        terms = terms_of(model, ids)
        most = ROTARY if model is book_llama else TOLERANCE
        right = 100 * terms.attention()[head, 4, :5].numpy()
        np.testing.assert_allclose(side["bars"], right, atol=0.051 + 100 * most["attention"])
        scores = terms.scores()[head, 4, :5] / terms.folded.scale
        for name, moved in side["moved"].items():
            if name not in terms.names:
                assert moved == "–"
                continue
            right = kl_of_removal(scores, terms[name][head, 4, :5] / terms.folded.scale)
            assert float(moved) == pytest.approx(float(right), abs=0.0051 + most["kl"])
        assert set(side["moved"]) == {*TERMS, *DISTANCE_TERMS}


SIDES_BY_TERM = """[...document.querySelectorAll('[data-part=compare] .side')].map((side, i) => ({
  bars: [...side.querySelectorAll('.share')].map(e => parseFloat(e.textContent)),
  moved: Object.fromEntries([...document.querySelectorAll('[data-part=compare] tbody tr')].map(
    row => [row.querySelector('.term sup').textContent,
      [...row.querySelectorAll('td')][i].textContent])),
}))"""
DISTANCES = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64]
APART = """(() => ({
  rows: [...document.querySelectorAll('tbody tr')].map(row =>
    [...row.querySelectorAll('td')].map(e =>
      parseFloat(e.textContent.replace(/,/g, '').replace('−', '-')))),
  columns: [...document.querySelectorAll('thead th')].map(e => e.textContent),
  boxes: [...document.querySelectorAll('input')].map(e => e.value),
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
}))()"""


def test_a_pair_at_every_distance(tab, site, book_llama) -> None:
    show(tab, site, "", "distance")
    tab.collect()
    urls = [event["request"]["url"] for event in tab.of("Network.requestWillBeSent")]
    assert not any("book-llama" in url for url in urls), "before it is asked for"
    tab.evaluate(
        "document.querySelectorAll('.token-explorer').forEach(p => delete p.dataset.state)"
    )
    tab.evaluate("[...document.querySelectorAll('button')].find(b => !b.hidden).click()")
    tab.evaluate(READY)
    found = tab.evaluate(APART)
    assert found["boxes"] == ["␣York", "␣New"]
    assert found["columns"] == ["Head", *(f"Δ {distance}" for distance in DISTANCES)]
    assert found["overflow"] <= 0
    tokenizer = book_llama.tokenizer
    for query, key in ((" York", " New"), (" United", " the")):
        ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (query, key)]
        (query,), (key,) = ids
        right = {}
        for distance in DISTANCES:
            terms = terms_of(book_llama, [key, *[query] * distance])
            for name in DISTANCE_TERMS:
                right.setdefault(name, []).append(terms[name][:, -1, 0].numpy())
        right = {name: np.stack(columns, axis=1) for name, columns in right.items()}
        right["sum"] = sum(right.values())
        for name, table in right.items():
            move(tab, f"#from={query}&to={key}&apart={name}")
            most = 0.051 + ROTARY["terms"] * (4 if name == "sum" else 1)
            np.testing.assert_allclose(tab.evaluate(APART)["rows"], table, atol=most)


def test_the_rank_of_a_key_at_every_distance(tab, site, book_llama) -> None:
    query, key = 700, 300
    show(tab, site, f"#from={query}&to={key}&apart=rank", "distance")
    found = np.array(tab.evaluate(APART)["rows"])
    folded, embeddings, means = exactly(book_llama)
    every = torch.arange(8192)
    keys = folded.per_head(folded.keys(embeddings.rows(every)) - means.k0[:, None])
    keys = folded.turned(keys, torch.zeros(8192, dtype=torch.long))
    asked = folded.queries(embeddings.rows(torch.tensor([query]))) - means.q0[:, None]
    for column, distance in enumerate(DISTANCES):
        row = (folded.turned(asked, torch.tensor([distance])) @ keys.mT)[:, 0]
        for head in range(folded.n_heads):
            score = row[head, key]
            # Keys whose score is nearer than the numbers are exact may change places.
            low, high = (
                1 + int((row[head] > score + step).sum())
                for step in (2 * ROTARY["terms"], -2 * ROTARY["terms"])
            )
            assert low <= found[head, column] <= high
            exact = 1 + int((row[head] > score).sum())
            assert abs(found[head, column] - exact) < 0.03 * 8192


def test_position_curves_are_those_of_the_package(tab, site, book_model, other_model) -> None:
    read = """(head => {
      const picture = document.querySelectorAll('[data-part=curves] svg')[head];
      const key = name => picture.dispatchEvent(new KeyboardEvent('keydown', {key: name}));
      const told = () => document.querySelector('[data-part=curves] .hover').textContent;
      for (let i = 0; i < 40; i++) key('ArrowLeft');
      const first = (key('ArrowLeft'), told());
      for (let i = 0; i < 40; i++) key('ArrowRight');
      return [first, told()];
    })"""
    for name, model, where in (("", book_model, 12), ("other", other_model, 16)):
        folded = fold(model.attention)
        sigma = inverse_sigma_bands(model.embeddings, folded.eps)
        bias = position_bias(folded, model.embeddings.W_P, [where], sigma)
        last = where if folded.causal else 31
        for show_, curves in {
            "": [bias.term_p().mean, bias.term_pp().mean[:, 0], bias.total().mean[:, 0]],
            "attention": [bias.attention()[:, 0]],
        }.items():
            show(tab, site, f"#of={name}&place={where}&curve={show_}", "sentence")
            for head in (0, 2):
                told = tab.evaluate(f"{read}({head})")
                for text, key in zip(told, (0, last), strict=True):
                    place, values = text.split("): ")
                    assert place == f"Head {head}, key {key} ({where - key} before the query"
                    numbers = [float(v.split()[-1].replace("−", "-")) for v in values.split(", ")]
                    right = [curve[head, key] for curve in curves]
                    np.testing.assert_allclose(
                        numbers, right, atol=0.0061 if show_ == "" else 0.00061
                    )


def test_a_click_on_a_strong_pair_asks_about_it(tab, site, models) -> None:
    show(tab, site, "#left=some.2&right=own.0&among=all")
    lists = """[...document.querySelectorAll('[data-part=strongest] ol')].map(list =>
      [...list.children].map(item => [...item.querySelectorAll('.token')].map(e => e.textContent)
        .concat(item.querySelector('.score').textContent)))"""
    study = models["some"].study
    for head, found in zip((2, 0), tab.evaluate(lists), strict=True):
        assert len(found) == min(PAIRS, study.pair_scores.shape[1])
        for rank, (key, query, score) in enumerate(found):
            assert key == seen(HOSTILE[study.pair_keys[head, rank]])
            assert query == seen(HOSTILE[study.pair_queries[head, rank]])
            right = study.pair_scores[head, rank]
            assert float(score.replace("−", "-")) == pytest.approx(right, abs=0.056)
    tab.evaluate(
        "document.querySelectorAll('.token-explorer').forEach(p => delete p.dataset.state);"
        "document.querySelectorAll('[data-part=strongest] ol')[0].children[1]"
        ".querySelector('button').click(); 0"
    )
    tab.evaluate(
        "document.querySelectorAll('[data-part=strongest]').forEach(p => p.dataset.state = 'ready')"
    )
    tab.evaluate(READY)
    where = tab.evaluate("location.hash")
    query, key = study.pair_queries[2, 1], study.pair_keys[2, 1]
    assert f"model=some&token={query}&key={key}" in where.replace("#", "&")
    pair = tab.evaluate(PAIR)
    shown = [pair["query"], pair["key"]]
    assert shown == [plain(HOSTILE[query]), plain(HOSTILE[key])]


def plain(token: str) -> str:
    """A token in a box: bytes and code points that cannot be seen in angle brackets."""
    shown = []
    for sign in token:
        text = seen(sign).removeprefix("◌") or "⟨empty⟩"
        shown.append(text if text == sign or sign in " \n" else f"⟨{text}⟩")
    return "".join(shown) or "⟨empty⟩"


def test_a_long_text_is_cut_and_says_so(tab, site, book_model) -> None:
    show(tab, site, f"#text={'a+' * 90}", "sentence")
    ids = [8191, *book_model.tokenizer("a " * 90)["input_ids"]]
    found = tab.evaluate(VIEW)
    assert len(found["words"]) == 64
    assert found["said"] == f"The first 64 tokens are shown; {len(ids) - 64} more are left out."


def test_a_map_tells_its_values_and_is_chosen_by_a_click(tab, site, opening) -> None:
    show(tab, site, "#head=1&query=2", "sentence")
    point = """(kind, query, key) => {
      const canvas = document.querySelectorAll('.maps canvas')[3];
      const box = canvas.getBoundingClientRect();
      const n = document.querySelectorAll('.words button').length;
      const at = place => box.width * (place + .5) / n;
      canvas.dispatchEvent(new MouseEvent(kind, {bubbles: true, cancelable: true,
        clientX: box.left + at(key), clientY: box.top + at(query)}));
      return document.querySelector('.hover').textContent;
    }"""
    share = 100 * float(opening.terms.attention()[3, 4, 1])
    assert tab.evaluate(f"({point})('mousemove', 4, 1)").endswith(f": {share:.1f} %")
    assert "does not see" in tab.evaluate(f"({point})('mousemove', 1, 4)")
    tab.evaluate("delete document.querySelector('.token-explorer').dataset.state; 0")
    tab.evaluate(f"({point})('click', 4, 1)")
    tab.evaluate(READY)
    found = tab.evaluate(VIEW)
    assert (found["head"], found["query"]) == ("3", "explorer-word-4")


def test_the_front_pages_widget_follows_at_once(tab, site, opening) -> None:
    show(tab, site, "", "widget")
    shares = (
        """[...document.querySelectorAll('.bars .share')].map(e => parseFloat(e.textContent))"""
    )
    terms, where = opening.terms, (opening.head, opening.query, slice(0, opening.query + 1))
    right = 100 * terms.attention()[where]
    np.testing.assert_allclose(tab.evaluate(shares), right, atol=0.051)
    tab.evaluate("document.querySelector('#widget-keep-ee').click()")
    tab.evaluate("new Promise(done => setTimeout(done, 100))")
    right = 100 * terms.attention(without="ee")[where]
    np.testing.assert_allclose(tab.evaluate(shares), right, atol=0.051)
    assert tab.evaluate("document.activeElement.id") in ("widget-keep-ee", "")
    tab.collect()
    loaded = [event["request"]["url"] for event in tab.of("Network.requestWillBeSent")]
    assert not [url for url in loaded if "/layer.js" in url or "/rows-" in url]


def test_parts_far_below_wait_for_a_reader(tab, site) -> None:
    """With a view in the address they do not, or it could not be led to."""
    states = "[...document.querySelectorAll('.token-explorer')].map(e => e.dataset.state ?? null)"
    tab.go("about:blank")
    tab.go(f"{site.as_uri()}/tokens.html")
    tab.until("document.querySelector('.token-explorer').dataset.state")
    tab.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")
    assert tab.evaluate(states) == ["ready", None, None]
    tab.evaluate(READY)
    show(tab, site, "#at=pair")
    assert tab.evaluate(states) == ["ready"] * 3
    top = "document.querySelector('[data-part=pair]').getBoundingClientRect().top"
    assert abs(tab.evaluate(top)) < 300


def test_lost_data_are_reported_and_can_be_tried_again(chromium, site, tmp_path) -> None:
    place = tmp_path / "site"
    shutil.copytree(site, place)
    shard = place / "explorer" / "tiny" / "shard-0.js"
    text = shard.read_text()
    shard.unlink()
    tab = chromium.open(360, 740)
    try:
        show(tab, place, "#model=tiny&token=0")
        problem = "document.querySelector('[role=alert]')?.textContent ?? null"
        assert "tiny/shard-0.js could not be loaded" in tab.evaluate(problem)
        shard.write_text("throw new Error('broken')")
        again = (
            "document.querySelectorAll('.token-explorer:has([role=alert])')"
            ".forEach(p => delete p.dataset.state);"
            "document.querySelectorAll('[role=alert] button').forEach(b => b.click())"
        )
        tab.evaluate(again)
        tab.evaluate(READY)
        assert "could not be loaded" in tab.evaluate(problem)
        shard.write_text(text)
        tab.evaluate(again)
        tab.evaluate(READY)
        assert tab.evaluate(problem) is None
        assert tab.evaluate(SEEN)["chosen"] == seen(HOSTILE[0])
    finally:
        tab.close()


# axe-core knows the guidelines by which pages are judged; a package of the extra `test` carries it.
needs_axe = pytest.mark.skipif(
    accessibility.find() is None, reason="axe-core absent: pip install .[test]"
)


@needs_axe
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_anyone_can_use_it(tab, site, page, theme) -> None:
    show(tab, site, "#model=tiny&token=7&query=4&without=pp&apart=sum", page)
    tab.evaluate(f"document.documentElement.dataset.theme = {theme!r}")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    if page == "tokens":
        write(tab, "c")
        press(tab, "ArrowDown")
        assert accessibility.violations(tab) == []
        press(tab, "Escape")
    assert accessibility.violations(tab) == []


@needs_axe
def test_the_checker_finds_a_violation(tab, site) -> None:
    """Else the test above could not fail."""
    show(tab, site)
    tab.evaluate(
        "document.querySelector('main').append(document.createElement('input'));"
        "document.querySelector('h1').style.color = '#eee'"
    )
    found = accessibility.violations(tab)
    assert {line.split(":")[0] for line in found} == {"label", "color-contrast"}
