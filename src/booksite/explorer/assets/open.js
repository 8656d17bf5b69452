/* The explorer's model: one that comes with the page, or a reader's own checkpoint. */
"use strict";

(() => {
  const { go, make, mount, number, options } = lnattnExplorer;
  const NO_VIEW = { token: "", key: "", head: "", query: "" };

  // ---- Choosing ------------------------------------------------------------------------------------

  mount("model", ["model"], (place) => {
    const select = make("select", {
      id: "explorer-model", change: () => go({ ...NO_VIEW, model: select.value }, true),
    });
    const why = make("p", { class: "hint" });
    place.replaceChildren(
      make("div", { class: "controls" }, make("div", {}, make("label", { for: select.id }, "Model"), select)), why);

    return async (isLatest) => {
      const { listed, missing, one } = await lnattnModels.named();
      if (!isLatest()) return;
      options(select, listed.map(({ folder, name }) => [folder, name]), one.folder);
      why.textContent = `${missing ? "The address names a model that is not here; open it again. " : ""}${one.name}, ${one.why}: `
        + `${one.vocab.toLocaleString("en")} tokens, ${one.heads} heads.`;
    };
  });

  // ---- Opening a checkpoint ------------------------------------------------------------------------

  /** What is said of a model that was just opened. */
  function report({ file, one, seconds }) {
    const megabytes = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
    return `${one.name}: ${one.vocab.toLocaleString("en")} tokens, ${one.heads} heads; ${megabytes(file.read())} of `
      + `${megabytes(file.size)} read in ${seconds.toFixed(1)} s. All tools of this page show it.`;
  }

  /** The first table of the report. */
  function table(facts) {
    return make("table", { class: "facts" },
      make("caption", {}, "What the model is: with this table begins what ", make("code", {}, "lnattn report"), " writes of it"),
      make("tbody", {}, ...facts.map(([label, text]) => make("tr", {}, make("th", { scope: "row" }, label), make("td", {}, text)))));
  }

  /** What the heads do on the sentence of the page: a row a head. */
  function heads({ all, layer, terms, text }) {
    const rows = lnattnAbout.glance(layer, terms, all.kinds);
    const title = (words) => make("th", { scope: "col" }, words);
    return make("table", { class: "glance" },
      make("caption", {}, `Heads at a glance, on “${text}”: by how many nats attention moves, in the mean over the queries, `
        + "where the terms of a kind are taken out; and how much of it is on the first token"),
      make("thead", {}, make("tr", {}, ...["Head", ...Object.keys(all.kinds), "first token", "mostly"].map(title))),
      make("tbody", {}, ...rows.map(({ head, moved, first, mostly }) => make("tr", {},
        make("th", { scope: "row" }, `Head ${head}`),
        ...Object.values(moved).map((nats) => make("td", {}, number(nats, 2))),
        make("td", {}, `${number(100 * first, 0)} %`), make("td", {}, mostly)))));
  }

  mount("open", [], (place) => {
    const said = make("p", { class: "hint", role: "status" });
    const about = make("div", {});
    const absent = make("p", { class: "hint" });

    async function show(opening) {
      said.className = "hint";
      said.textContent = "Reading the first layer …";
      about.replaceChildren();
      const tell = (share) => (said.textContent = `Reading the first layer … ${Math.round(100 * share)} %`);
      try {
        const model = await opening(tell);
        go({ ...NO_VIEW, model: model.one.folder }, true);
        said.textContent = report(model);
        const glance = make("div", { class: "numbers", role: "region", tabindex: "0", "aria-label": "Heads at a glance" });
        about.replaceChildren(table(model.facts), glance);
        const found = await lnattnModels.sentence().catch((error) => ({ one: model.one, problem: error.message }));
        if (found.one !== model.one) return; // the reader has gone on to another
        glance.replaceChildren(found.problem ? make("p", { class: "hint" }, found.problem) : heads(found));
      } catch (error) {
        said.className = "problem";
        said.textContent = error.message;
      }
    }

    const openFiles = (files) => files.length && show((tell) => lnattnModels.openFiles([...files], tell));
    const input = make("input", {
      id: "explorer-files", type: "file", multiple: "", change: () => openFiles(input.files),
    });
    // What lies deeper in the folder is of something else.
    const inFolder = (files) => [...files].filter(({ webkitRelativePath: path }) => path.split("/").length === 2);
    const folder = make("input", {
      id: "explorer-folder", type: "file", webkitdirectory: "", change: () => openFiles(inFolder(folder.files)),
    });
    const zone = make("div", {
      class: "drop",
      dragover: (event) => event.preventDefault(),
      drop: (event) => {
        event.preventDefault();
        return openFiles(event.dataTransfer.files);
      },
    },
    make("label", { for: "explorer-files" }, "Your own checkpoint: choose, or drop here, its model.safetensors (or its parts), "
      + "config.json and tokenizer.json (not needed with GPT-2's tokens)."), input,
    make("label", { for: "explorer-folder" }, "Or choose the folder that holds them."), folder,
    make("p", { class: "hint" }, "Your browser reads them; nothing leaves this machine."));
    place.replaceChildren(zone, said, about, absent);

    return async () => {
      const { all } = await lnattnModels.named();
      const reasons = all.absent.map(({ name, why }) => `${name} (${why.replace(/\.$/, "")})`);
      absent.textContent = reasons.length ? `Not shown in this edition: ${reasons.join("; ")}.` : "";
    };
  });
})();
