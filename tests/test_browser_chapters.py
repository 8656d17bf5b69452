"""Widgets that stand in for a chapter's figure, in a real browser: seen, by keyboard, on paper.

Skipped, by name, where no Chromium is installed.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch
from browsing import PHONE, tab_in, violations
from small_site import build

from booksite.explorer import page, publishing
from booksite.explorer.layers import opening, weights
from booksite.explorer.publishing import IN_CHAPTERS, LOADER, PAIR, STYLE
from booksite.explorer.texts import script
from lnattn.attention.folding import fold
from lnattn.attention.terms import six_terms
from lnattn.models.checkpoints import load_first_layer
from lnattn.text.tokenizers import encode_documents

BOOK = Path(__file__).resolve().parents[1]
NOTEBOOKS = BOOK / "notebooks"
#: A figure a screen and a half below the begin of its page, as a chapter has it.
FIGURE = """# A chapter

<p style="height: 1500px">Above.</p>

```{figure} picture.svg
:name: fig-of-%(part)s
:alt: A picture.

What the picture shows.
```

```{token-explorer} %(part)s
:figure: fig-of-%(part)s
```
"""
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200"></svg>'
#: By part what the keyboard does: an element, and the key that is pressed on it.
KEYS = {
    "pair": ("#pair-keep-ee", "Space"),
    "place": ("#place-head", "ArrowLeft"),
    "first-place": ("#first-place-sigma", "ArrowLeft"),
    "training": ("#training-step", "End"),
    "norm": ("#norm-stage", "End"),
}


# ---- Places in the notebooks ---------------------------------------------------------------------


def placed() -> dict[str, tuple[str, str]]:
    """By part, the notebook and the figure that a widget stands in for."""
    mark = re.compile(r"^```\{token-explorer\} ([\w-]+)\n:figure: (fig-[\w-]+)\n```$", re.M)
    return {
        part: (path.read_text("utf-8"), figure)
        for path in NOTEBOOKS.glob("*.md")
        for part, figure in mark.findall(path.read_text("utf-8"))
    }


def test_each_widget_stands_after_the_figure_that_it_replaces():
    assert set(placed()) == set(IN_CHAPTERS) == set(KEYS)
    for text, figure in placed().values():
        assert f"    name: {figure}\n" in text
        assert text.index(f"    name: {figure}\n") < text.index(f":figure: {figure}\n")


def test_the_pairs_sentence_is_the_chapters():
    assert f'\ntext = "{PAIR}"\n' in placed()["pair"][0]


# ---- In Chromium ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A site with a page for each widget, built as the book is, with the data of the widgets."""
    folder = tmp_path_factory.mktemp("chapters")
    (folder / "source").mkdir()
    (folder / "source" / "picture.svg").write_text(PICTURE)
    minilm = load_first_layer("minilm")
    pair = script("minilm/pair", opening(minilm, PAIR, weights(minilm)[1]))

    def publish(place, _models):
        shutil.copytree(publishing.ASSETS, place)
        (place / "minilm").mkdir()
        (place / "minilm" / "pair.js").write_text(pair, "ascii")
        about = {"name": "MiniLM", "folder": "minilm", "version": "1", "opening": True}
        shared = {"models": [about], "absent": [], **publishing.shared_facts()}
        for name, value in {"shared": shared, **publishing.of_chapters()}.items():
            (place / f"{name}.js").write_text(script(name, value), "ascii")

    pages = {f"{part}.md": FIGURE % {"part": part} for part in KEYS}
    names = "\n".join(KEYS)
    pages["index.md"] = f"# Start\n\n```{{toctree}}\n{names}\n```\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "publish", publish)
        extensions = ["myst_parser", "booksite.explorer.page"]
        out, warnings, _ = build(folder, pages, extensions=extensions)
    assert warnings == ""
    return out


@pytest.fixture
def tab(chromium):
    """A tab that must have raised no error when the test is over."""
    with tab_in(chromium, PHONE) as tab:
        yield tab
    assert not tab.problems


def of_explorer(tab) -> list[str]:
    """The explorer's files that the page has asked for."""
    names = [url.partition("_static/explorer/")[2].partition("?")[0] for url in tab.requests]
    return [name for name in names if name]


def come_near(tab, site, part) -> None:
    tab.go(f"{site.as_uri()}/{part}.html")
    tab.evaluate("document.querySelector('figure').scrollIntoView()")
    tab.until("document.querySelector('.token-explorer').dataset.state === 'ready'")


def said(tab) -> str:
    return tab.evaluate("document.querySelector('.token-explorer [role=status]').textContent")


def is_shown(tab, selector: str) -> bool:
    return tab.page.is_visible(f"figure {selector}")


@pytest.mark.parametrize("part", KEYS)
def test_nothing_is_loaded_before_the_figure_comes_near(tab, site, part):
    tab.go(f"{site.as_uri()}/{part}.html")
    tab.page.wait_for_timeout(300)
    assert of_explorer(tab) == [LOADER]
    assert is_shown(tab, "img")
    come_near(tab, site, part)
    assert set(of_explorer(tab)) >= {LOADER, STYLE, *IN_CHAPTERS[part]}
    assert is_shown(tab, ".of-widget")
    assert not is_shown(tab, ".caption-text")


@pytest.mark.parametrize("part", KEYS)
def test_a_widget_answers_the_keyboard(tab, site, part):
    come_near(tab, site, part)
    before = said(tab)
    assert before
    element, key = KEYS[part]
    tab.page.focus(element)
    tab.page.keyboard.press(key)
    tab.until(f"document.querySelector('.token-explorer [role=status]').textContent !== {before!r}")
    assert tab.evaluate(f"document.activeElement.matches({element!r})")
    assert violations(tab) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


@pytest.mark.parametrize("part", KEYS)
def test_on_paper_the_picture_is_shown(tab, site, part):
    come_near(tab, site, part)
    tab.page.emulate_media(media="print")
    assert is_shown(tab, "img")
    assert is_shown(tab, ".caption-text")
    assert not is_shown(tab, ".token-explorer")
    assert not is_shown(tab, ".of-widget")


@pytest.mark.parametrize("part", KEYS)
def test_without_scripts_the_picture_is_shown(chromium, site, part):
    context = chromium.new_context(java_script_enabled=False)
    shown = context.new_page()
    shown.goto(f"{site.as_uri()}/{part}.html")
    assert shown.is_visible("figure img")
    assert shown.is_visible("figure .caption-text")
    assert shown.locator(".token-explorer").inner_text() == ""
    context.close()


def test_data_that_are_missing_leave_the_picture(chromium, site, tmp_path):
    """One sentence, a button to try again, and nothing half shown."""
    shutil.copytree(site, tmp_path / "site")
    data = tmp_path / "site" / "_static" / "explorer" / "shared.js"
    kept = data.read_text("ascii")
    data.unlink()
    with tab_in(chromium, PHONE) as tab:
        tab.go(f"{(tmp_path / 'site').as_uri()}/pair.html")
        tab.evaluate("document.querySelector('figure').scrollIntoView()")
        tab.until("document.querySelector('.token-explorer').dataset.state === 'failed'")
        assert is_shown(tab, "img")
        assert not is_shown(tab, ".words")
        assert "shared.js could not be loaded" in tab.page.inner_text("[role=alert]")
        data.write_text(kept, "ascii")
        tab.page.click("[role=alert] button")
        tab.until("document.querySelector('.token-explorer').dataset.state === 'ready'")
        assert not is_shown(tab, "img")


# ---- What they say -------------------------------------------------------------------------------


def test_the_pair_is_told_by_the_packages_numbers(tab, site):
    model = load_first_layer("minilm").to(torch.float64)
    ids = next(iter(encode_documents([PAIR], model.tokenizer, 64)))
    words = [model.tokenizer.convert_ids_to_tokens(int(token)) for token in ids]
    terms = six_terms(fold(model.attention), model.embeddings, torch.as_tensor(ids))
    york, new = words.index("york"), words.index("new")
    whole = float(terms.attention()[5, york, new])
    left = float(terms.attention(without="ee")[5, york, new])
    come_near(tab, site, "pair")
    assert said(tab).startswith(f"york gives new {100 * whole:.0f} % of its attention, drawn by")
    tab.page.click("#pair-keep-ee")
    tab.until("/^Without/.test(document.querySelector('[role=status]').textContent)")
    begun = f"Without token → token york loses new: {100 * whole:.0f} → {100 * left:.0f} %."
    assert said(tab).startswith(begun)
    tab.page.select_option("#pair-head", "2")
    tab.until("/head 2/.test(document.querySelector('.caption').textContent)")


def move(tab, slider: str, key: str, wanted: str) -> None:
    """Press a key on a slider until its value is said in these words."""
    tab.page.focus(slider)
    tab.page.keyboard.press(key)
    assert tab.page.get_attribute(slider, "aria-valuetext") == wanted


def test_the_other_widgets_say_what_their_chapters_say(tab, site):
    come_near(tab, site, "place")
    assert said(tab) == (
        "At place 1000 head 7 gives by place alone 97 % of its attention to the nearest ten keys. "
        "The wave is highest 347 keys before the query."
    )
    move(tab, "#place-query", "Home", "50")
    assert said(tab).startswith("At place 50 head 7 ")
    tab.page.uncheck("#place-slope")
    assert "by the wave alone" in said(tab)
    come_near(tab, site, "first-place")
    assert tab.page.get_attribute("#first-place-sigma", "aria-valuetext") == "its own"
    assert "14.6 times as much as with an ordinary σ; 9 of 12 heads give it more" in said(tab)
    come_near(tab, site, "training")
    move(tab, "#training-step", "End", "101 million")
    assert said(tab).startswith("After 101 million tokens training 1 loses 0.0")
    come_near(tab, site, "norm")
    move(tab, "#norm-stage", "End", "scaled")
    assert (
        said(tab) == "Scaled: along 1 the points reach 0.00; their lengths run from 1.73 to 1.73."
    )
    tab.page.check("#norm-plane")
    assert said(tab).endswith(" Two points are left.")


def test_a_finger_turns_the_points(tab, site):
    come_near(tab, site, "norm")
    before = tab.page.inner_html(".space")
    tab.page.evaluate("""() => {
      const space = document.querySelector('.space');
      const { left, top } = space.getBoundingClientRect();
      space.setPointerCapture = () => {};
      for (const [kind, by] of [['pointerdown', 0], ['pointermove', 40], ['pointerup', 40]]) {
        const place = { clientX: left + 100 + by, clientY: top + 100 };
        space.dispatchEvent(new PointerEvent(kind, place));
      }
    }""")
    assert tab.page.inner_html(".space") != before
    assert tab.page.input_value("#norm-turn") == "-30"
