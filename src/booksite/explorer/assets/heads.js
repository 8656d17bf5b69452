/* The explorer's heads: choose a token, see its strongest partners in every head. */
"use strict";

(() => {
  const { go, make, model, mount, number, plain, state, tokenElement } = lnattnExplorer;
  const { asked, combobox, factsOf, link, mainRanks, scores } = lnattnTokens;
  const RANKS = [5, 5]; // keys and queries listed where the browser finds them itself
  const SORTS = {
    "": "heads in order",
    auroc: "highest AUROC first",
    rank: "usual predecessor's best rank first",
  };

  /** The partners of one head on one side, best first, with the bigrams among them. */
  function partnerList(view, list, times) {
    return make("ol", {}, ...list.map(({ id, score }) => {
      const count = times(id);
      const width = (100 * Math.max(0, score)) / view.largest;
      return make(
        "li", {},
        make("span", { class: "bar", style: `width: ${width.toFixed(1)}%`, "aria-hidden": "true" }),
        link(view.names[id], id),
        count
          ? make("span", { class: "times", title: `next to each other ${count} times` }, `${count}×`)
          : "",
        make("span", { class: "score" }, number(score, 1)),
      );
    }));
  }

  function headCard(view, head) {
    const { facts, index, names } = view;
    const [mean, low, high] = index.auroc[head];
    const said = facts.auroc ? `${facts.auroc[head].toFixed(3)} for this token` : "of all tokens";
    const before = new Map(facts.before);
    const after = new Map(facts.after);
    const rank = facts.mainRank?.[head];
    return make(
      "section", { class: "head", "aria-label": `Head ${head}` },
      make("h3", {}, `Head ${head}`),
      make("p", { class: "auroc" },
        make("span", {}, `AUROC ${said}`),
        ` (mean ${mean.toFixed(3)}, 95 % interval ${low.toFixed(3)}–${high.toFixed(3)})`),
      rank ? make("p", { class: "usual" }, "usual predecessor ", tokenElement(names[facts.before[0][0]]),
        `: rank ${rank.toLocaleString("en")}`) : "",
      ...(view.keys ? [
        make("h4", {}, "As a query, it looks for"),
        partnerList(view, view.keys[head], (id) => before.get(id)),
        make("h4", {}, "As a key, it is looked for by"),
        partnerList(view, view.queries[head], (id) => after.get(id)),
      ] : []),
    );
  }

  function neighbourList(view, title, pairs) {
    const items = pairs.slice(0, 5).map(([id, count]) =>
      make("li", {}, link(view.names[id], id), ` ${count}×`));
    const nothing = make("p", {}, "nothing");
    return make("div", {}, make("h4", {}, title), items.length ? make("ul", {}, ...items) : nothing);
  }

  /** Heads in the order that the address asks for. */
  function order(view) {
    const heads = view.index.auroc.map((_, head) => head);
    const { auroc, mainRank } = view.facts;
    const by = { auroc: auroc?.map((value) => -value), rank: mainRank }[state().sort];
    return by ? heads.sort((a, b) => by[a] - by[b]) : heads;
  }

  function tokenView(view) {
    const { facts, index } = view;
    const times = facts.count.toLocaleString("en");
    const corpus = index.about.counted.toLocaleString("en");
    return [
      make("h3", { class: "chosen" }, tokenElement(view.names[facts.id])),
      make("p", {}, `Token ${facts.id}. It occurs ${times} times in ${corpus} tokens `
        + `(${index.about.counts}), after ${facts.kinds} different tokens.`),
      make("div", { class: "neighbours" },
        neighbourList(view, "Most often before it", facts.before),
        neighbourList(view, "Most often after it", facts.after)),
      view.keys ? "" : make("p", { class: "hint" }, "A rarer token, whose partners are not in this "
        + `list: they are there for ${index.frequent.toLocaleString("en")} tokens, the most frequent `
        + "and those that the book names."),
      make("div", { class: "heads" }, ...order(view).map((head) => headCard(view, head))),
    ];
  }

  mount("heads", ["model", "token", "sort"], (place) => {
    let shown = null;
    const select = make("select", {
      id: "explorer-model",
      change: () => go({ model: select.value, token: "", key: "", sort: state().sort ?? "" }, true),
    });
    const sort = make("select", { id: "explorer-sort", change: () => go({ sort: sort.value }) },
      ...Object.entries(SORTS).map(([value, text]) => make("option", { value }, text)));
    const box = combobox("explorer-token", "Token", () => shown.part("tokens"),
      (id) => go({ model: shown.one.folder, token: id, key: "" }, true));
    const random = make("button", {
      type: "button",
      click: () => go({ token: Math.floor(Math.random() * shown.index.vocab), key: "" }, true),
    }, "A random token");
    const about = make("p", { class: "about" });
    const told = make("p", { class: "visually-hidden", role: "status" });
    const content = make("div", { class: "view" });
    place.replaceChildren(
      make("div", { class: "controls" },
        make("div", {}, make("label", { for: "explorer-model" }, "Model"), select),
        box.element,
        make("div", {}, make("label", { for: "explorer-sort" }, "Show"), sort),
        random),
      make("p", { class: "hint" },
        "Type a part of a token (␣ is a space), or # and its number; choose with the arrow keys."),
      about, told, content,
    );

    return async (isLatest) => {
      const { all, one, missing, index, part } = await model();
      if (!one) {
        const why = all.absent.map(({ name, why: reason }) => `${name}: ${reason}`).join(" ");
        content.replaceChildren(make("p", {}, `No model of this build can be explored. ${why}`));
        return;
      }
      const id = await asked("token", index, part, index.start);
      const facts = await factsOf(index, part, id);
      let { keys, queries } = facts;
      let { names } = index;
      if (one.computed) {
        const all = await scores(one, part, index.vocab, (share) => {
          if (isLatest()) told.textContent = about.textContent =
            `Reading all embeddings of ${one.name}, once: ${Math.round(100 * share)} %`;
        });
        const find = (most, asQuery) => index.auroc.map((_, head) => all.best(head, id, most, asQuery));
        [keys, queries] = [find(RANKS[0], true), find(RANKS[1], false)];
        facts.mainRank = mainRanks(index, facts, all);
      }
      if (one.computed || id !== index.start) names = await part("tokens");
      if (!isLatest()) return;
      const other = one !== shown?.one;
      shown = { one, index, part };
      const listed = [...(keys ?? []), ...(queries ?? [])].flat();
      const largest = Math.max(index.largest, ...listed.map(({ score }) => Math.abs(score)), 1e-9);
      const view = { index, facts, names, keys, queries, largest };
      select.replaceChildren(...all.models.map((model) => make(
        "option", { value: model.folder, selected: model.folder === one.folder && "" }, model.name)));
      sort.value = state().sort in SORTS ? state().sort : "";
      const lost = missing === null ? "" : "The address names a model that this build lacks. ";
      about.textContent = `${lost}${index.about.name} (${one.why}), weights ${index.about.weights}…: `
        + `${index.vocab.toLocaleString("en")} tokens, ${index.heads} heads.`;
      box.set(names[id], other);
      content.replaceChildren(...tokenView(view));
      told.textContent = `Shown: ${plain(names[id])}`;
    };
  });
})();
