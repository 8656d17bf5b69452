/* The explorer's lists of pairs: what a head likes most of all, two heads or models side by side. */
"use strict";

(() => {
  const { go, load, make, mount, number, partOf, state, tokenElement } = lnattnExplorer;
  const AMONG = { "": "pairs of the text", all: "all pairs of the vocabulary" };

  /** "folder.3" as a model and its head; null where this build has neither. */
  function named(all, text) {
    const dot = text.lastIndexOf(".");
    const one = all.models.find(({ folder }) => folder === text.slice(0, dot));
    const head = text.slice(dot + 1);
    return one && /^\d+$/.test(head) && head < one.heads ? { one, head: Number(head) } : null;
  }

  /** The heads of a model, the highest mean AUROC first. */
  const ranked = (index) => index.auroc.map((_, head) => head)
    .sort((a, b) => index.auroc[b][0] - index.auroc[a][0]);

  function pair({ one, lists }, [query, key, score, count]) {
    const open = () => {
      go({ model: one.folder, token: query, key }, true);
      document.querySelector('[data-part="pair"]')?.scrollIntoView();
    };
    const [left, right] = [lists.names[key], lists.names[query]].map(tokenElement);
    return make("li", {},
      make("button", { type: "button", class: "pair", click: open }, left, " ", right),
      count ? make("span", { class: "times", title: `next to each other ${count} times` },
        `${count.toLocaleString("en")}×`) : "",
      make("span", { class: "score" }, number(score, 1)));
  }

  function column(side, among) {
    const rows = side.lists[among][side.head];
    const [mean] = side.index.auroc[side.head];
    return make("section", { class: "head", "aria-label": `${side.one.name}, head ${side.head}` },
      make("h3", {}, `${side.one.name}, head ${side.head}`),
      make("p", { class: "auroc" }, `mean AUROC ${mean.toFixed(3)}`),
      rows.length ? make("ol", {}, ...rows.map((row) => pair(side, row)))
        : make("p", {}, `No pair occurs ${side.lists.least} times.`));
  }

  mount("strongest", ["left", "right", "among"], (place) => {
    const selects = ["left", "right"].map((side) => make("select", {
      id: `explorer-${side}`, change: (event) => go({ [side]: event.target.value }),
    }));
    const among = make("select", { id: "explorer-among", change: () => go({ among: among.value }) },
      ...Object.entries(AMONG).map(([value, text]) => make("option", { value }, text)));
    const said = make("p", { class: "hint" });
    const lists = make("div", { class: "heads" });
    const labelled = (text, element) =>
      make("div", {}, make("label", { for: element.id }, text), element);
    place.replaceChildren(
      make("div", { class: "controls" }, labelled("A head", selects[0]),
        labelled("and another", selects[1]), labelled("Among", among)),
      said, lists);

    return async (isLatest) => {
      const all = await load("models");
      if (!all.models.length) return;
      const dataOf = async (one) => {
        const [index, pairs] = await Promise.all([partOf(one)("index"), partOf(one)("pairs")]);
        return { one, index, lists: pairs };
      };
      const first = await dataOf(all.models[0]);
      const best = ranked(first.index);
      const sides = await Promise.all(["left", "right"].map(async (side, i) => {
        const asked = named(all, state()[side] ?? "");
        return asked ? { ...await dataOf(asked.one), head: asked.head }
          : { ...first, head: best[Math.min(i, best.length - 1)] };
      }));
      if (!isLatest()) return;
      among.value = state().among === "all" ? "all" : "";
      selects.forEach((select, i) => select.replaceChildren(...all.models.map((one) => make(
        "optgroup", { label: one.name }, ...Array.from({ length: one.heads }, (_, head) => make(
          "option", {
            value: `${one.folder}.${head}`,
            selected: one === sides[i].one && head === sides[i].head && "",
          }, `${one.name}, head ${head}`))))));
      said.textContent = among.value === "all"
        ? "Of all pairs of two different tokens, the ten that the head likes most; many never meet."
        : `Of the pairs that stand next to each other at least ${first.lists.least} times, the ten `
          + "that the head likes most.";
      lists.replaceChildren(...sides.map((side) => column(side, among.value || "seen")));
    };
  });
})();
