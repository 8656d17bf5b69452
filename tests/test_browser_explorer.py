"""The token explorer in a real browser, from a file: right numbers, hostile tokens, keyboard.

Skipped, by name, where no Chromium is installed.
"""

from __future__ import annotations

import shutil
import unicodedata

import accessibility
import pytest
import torch
from hostile import HOSTILE, explored

pytest.importorskip("sphinx", reason="Sphinx is not installed; pip install -e '.[book]'")
from booksite.explorer import page as extension
from booksite.explorer.scripts import scripts
from booksite.explorer.texts import script
from lnattn.studies.contribution.study import kl_of_removal

SENTENCES = ["3 1 4 1 5 9 2", "0 1 2", "2 7 1 8 2 8 1 8"]
TERMS = ("ee", "ep", "pe", "pp", "e", "p")
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
<h2>Heads</h2><div class="token-explorer" data-part="heads"></div>
<h2>Sentence</h2><div class="token-explorer" data-part="sentence"></div>
</main>
<script defer src="explorer/explorer.js?v=1"></script>
<script defer src="explorer/heads.js?v=1"></script>
<script defer src="explorer/sentence.js?v=1"></script>
</body></html>
"""
READY = """new Promise((done, fail) => {
  const begun = Date.now();
  (function look() {
    const places = [...document.querySelectorAll('.token-explorer')];
    if (places.length === 2 && places.every(place => place.dataset.state)) done(true);
    else if (Date.now() - begun > 10000) fail(new Error('the explorer does not appear'));
    else setTimeout(look, 10);
  })();
})"""


@pytest.fixture(scope="module")
def models():
    return {
        "tiny": explored(SENTENCES),
        "some": explored(SENTENCES, limit=14),
    }


@pytest.fixture(scope="module")
def site(models, tmp_path_factory):
    """A folder with a page of both parts and two models of hostile tokens."""
    place = tmp_path_factory.mktemp("site")
    shutil.copytree(extension.ASSETS, place / "explorer")
    listed = []
    for name, model in models.items():
        (place / "explorer" / name).mkdir()
        about = {"name": "<i>tiny</i>", "weights": "0123", "counts": "random", "counted": 546}
        for file, text in scripts(model, name, about):
            (place / "explorer" / name / file).write_text(text, encoding="ascii")
        listed.append({"name": name, "folder": name, "version": "abc", "why": "for <b>tests</b>"})
    text = script("models", {"models": listed, "absent": []})
    (place / "explorer" / "models.js").write_text(text, encoding="ascii")
    (place / "index.html").write_text(PAGE, encoding="utf-8")
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


def show(tab, site, hash_="") -> None:
    tab.go("about:blank")
    tab.go(f"{site.as_uri()}/index.html{hash_}")
    tab.evaluate(READY)


def move(tab, hash_: str) -> None:
    """Change the address within the page, and wait until both parts have followed."""
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
    heads: all('.head').map(head => [...head.querySelectorAll('ol')].map(list =>
      [...list.children].map(item => ['.token', '.times', '.score'].map(part =>
        item.querySelector(part)?.textContent ?? '')))),
    auroc: all('.auroc').map(e => e.textContent),
    markup: all('.token-explorer :is(script, img, iframe, b, i:not(.term i))').length,
    harmed: window.harmed ?? null,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  };
})()"""


def test_every_hostile_token_is_shown_as_text_with_its_true_partners(tab, site, models) -> None:
    model = models["tiny"]
    show(tab, site)
    for token, text in enumerate(HOSTILE):
        move(tab, f"#model=tiny&token={token}")
        found = tab.evaluate(SEEN)
        assert found["chosen"] == seen(text)
        assert (found["harmed"], found["markup"]) == (None, 0)
        assert found["overflow"] <= 0, f"{text!r} pushes the page wider than a phone"
        for head, sides in enumerate(found["heads"]):
            assert f"{model.study.auroc[head, token]:.3f} for this token" in found["auroc"][head]
            for side, listed in enumerate(sides):
                ids = model.partners.ids[side, head, token]
                times = model.partners.bigrams[side, head, token]
                scores = model.partners.scores[side, head, token]
                assert [name for name, _, _ in listed] == [seen(HOSTILE[i]) for i in ids]
                assert [count for _, count, _ in listed] == [f"{n}×" if n else "" for n in times]
                shown = [float(score.replace("−", "-")) for _, _, score in listed]
                assert shown == pytest.approx(scores.tolist(), abs=0.00501)


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
    assert (found["open"], found["status"]) == ("false", "0 tokens")
    press(tab, "Enter")
    assert "token=14" in tab.evaluate(state)["hash"]
    move(tab, tab.evaluate(state)["hash"] + "&show=pp")
    assert tab.evaluate(state)["value"] == "no such token", "what is being typed is not replaced"


def test_an_address_brings_others_to_the_same_view(tab, site, models) -> None:
    show(tab, site, "#model=some&sentence=2&head=1&query=3&show=pp&without=e.p")
    found = tab.evaluate(
        """({model: document.querySelector('#explorer-model').value,
        sentence: document.querySelector('#explorer-sentence').value,
        head: document.querySelector('[name=explorer-head]:checked').value,
        query: document.querySelector('.words [aria-pressed=true]').id,
        shows: document.querySelector('#explorer-show').value,
        kept: [...document.querySelectorAll('thead input:checked')].map(e => e.id.slice(14)),
        rows: document.querySelectorAll('tbody tr').length})"""
    )
    assert found == {
        "model": "some",
        "sentence": "2",
        "head": "1",
        "query": "explorer-word-3",
        "shows": "pp",
        "kept": ["ee", "ep", "pe", "pp"],
        "rows": 4,
    }
    tab.evaluate("document.querySelector('#explorer-word-5').click()")
    tab.evaluate("document.querySelector('#explorer-keep-e').click()")
    assert "query=5" in tab.evaluate("location.hash")
    assert "without=p" in tab.evaluate("location.hash")
    move(tab, "#model=some&token=99999&head=-1&query=1e9&sentence=x&show=zz&without=zz.ee")
    assert tab.evaluate("document.querySelectorAll('thead input:checked').length") == 5
    assert tab.evaluate(SEEN)["chosen"]
    move(tab, "#model=%3Cimg%20src=x%20onerror=harmed=1%3E&token=2")
    assert "names a model that this build lacks" in tab.evaluate(
        "document.querySelector('.about').textContent"
    )
    move(tab, "#some-heading-of-the-page")
    assert tab.evaluate(SEEN)["harmed"] is None


def test_the_way_back_leads_through_tokens_and_not_through_every_setting(tab, site) -> None:
    def follow(action: str) -> dict:
        tab.evaluate(
            "document.querySelectorAll('.token-explorer').forEach(p => delete p.dataset.state);"
            f"{action}; 0"
        )
        tab.evaluate(READY)
        return tab.evaluate(SEEN)

    show(tab, site, "#model=tiny&token=3&sentence=2")
    first, steps = tab.evaluate(SEEN)["chosen"], tab.evaluate("history.length")
    follow("document.querySelector('#explorer-word-2').click()")
    assert tab.evaluate("history.length") == steps, "a query is a setting, no step"
    second = follow(
        "[...document.querySelectorAll('.head li button')]"
        ".find(e => e.title !== 'Show 3' && e.textContent !== "
        "document.querySelector('.chosen').textContent).click()"
    )["chosen"]
    assert second != first
    assert tab.evaluate("history.length") == steps + 1
    assert "query=2" in tab.evaluate("location.hash"), "the other part keeps its place"
    assert follow("history.back()")["chosen"] == first
    assert follow("history.forward()")["chosen"] == second


def test_a_token_without_a_view_of_its_own_is_no_button(tab, site, models) -> None:
    some = models["some"]
    show(tab, site, f"#model=some&token={some.tokens[0]}")
    buttons = tab.evaluate(
        "[...document.querySelectorAll('.head li')].map(e => Boolean(e.querySelector('button')))"
    )
    ids = some.partners.ids[:, :, 0].transpose(1, 0, 2).ravel()
    assert buttons == [int(i) in some.tokens for i in ids]
    assert not all(buttons)


TABLE = """(() => ({
  scores: [...document.querySelectorAll('tbody tr')].map(row =>
    [...row.querySelectorAll('td')].map(cell => cell.textContent)),
  shifts: [...document.querySelectorAll('tfoot td')].map(cell => cell.textContent),
}))()"""


@pytest.mark.parametrize("without", ["", "ee", "pp.e"])
def test_terms_attention_and_shifts_are_those_of_the_package(tab, site, models, without) -> None:
    terms, head, query = models["tiny"].terms(0), 2, 5
    show(tab, site, f"#model=tiny&sentence=0&head={head}&query={query}&without={without}")
    found = tab.evaluate(TABLE)
    shown = torch.tensor(
        [[float(cell.replace("−", "-").rstrip(" %")) for cell in row] for row in found["scores"]],
        dtype=torch.float64,
    )
    keys = query + 1
    for place, name in enumerate(TERMS):
        torch.testing.assert_close(
            shown[:, place], terms[name][head, query, :keys], atol=0.051, rtol=0
        )
    kept = sum(terms[name] for name in TERMS if name not in without.split("."))
    row = kept[head, query, :keys]
    torch.testing.assert_close(shown[:, 6], row, atol=0.051, rtol=0)
    scale = models["tiny"].folded.scale
    torch.testing.assert_close(shown[:, 7] / 100, (row / scale).softmax(-1), atol=0.00051, rtol=0)
    scores = terms.scores()[head, query, :keys] / scale
    for name, text in zip(TERMS, found["shifts"], strict=False):
        right = float(kl_of_removal(scores, terms[name][head, query, :keys] / scale))
        assert float(text) == pytest.approx(right, abs=0.0051)


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
        tab.evaluate("document.querySelector('[role=alert] button').click()")
        tab.evaluate("new Promise(done => setTimeout(done, 300))")
        assert "could not be loaded" in tab.evaluate(problem)
        shard.write_text(text)
        tab.evaluate(
            "document.querySelectorAll('.token-explorer').forEach(p => delete p.dataset.state);"
            "document.querySelector('[role=alert] button').click();"
            "document.querySelector('[data-part=sentence]').dataset.state = 'ready'"
        )
        tab.evaluate(READY)
        assert tab.evaluate(problem) is None
        assert tab.evaluate(SEEN)["chosen"] == seen(HOSTILE[0])
    finally:
        tab.close()


@pytest.mark.skipif(accessibility.find() is None, reason="axe-core absent: pip install .[test]")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_anyone_can_use_it(tab, site, theme) -> None:
    show(tab, site, "#model=tiny&token=7&sentence=0&query=4")
    tab.evaluate(f"document.documentElement.dataset.theme = {theme!r}")
    write(tab, "c")
    press(tab, "ArrowDown")
    assert accessibility.violations(tab) == []
    press(tab, "Escape")
    assert accessibility.violations(tab) == []


def test_the_checker_finds_a_violation(tab, site) -> None:
    """Else the test above could not fail."""
    if accessibility.find() is None:
        pytest.skip("axe-core absent: pip install .[test]")
    show(tab, site)
    tab.evaluate(
        "document.querySelector('main').append(document.createElement('input'));"
        "document.querySelector('h1').style.color = '#eee'"
    )
    found = accessibility.violations(tab)
    assert {line.split(":")[0] for line in found} == {"label", "color-contrast"}
