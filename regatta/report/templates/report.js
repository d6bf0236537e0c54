"use strict";
(async () => {
  const root = document.documentElement;
  const drawn = new Map();
  let data;

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (root.dataset.theme === "auto" ? (dark.matches ? "dark" : "light") : root.dataset.theme);

  function rows(element) {
    const { chart, run } = element.dataset;
    if (chart === "changes" || chart === "overview") return data[chart];
    if (element.dataset.across) return data.across[element.dataset.across];
    if (chart === "timeline") return data.runs[run].timeline;
    return data.cases[element.dataset.case][chart];
  }

  function narrow(part) {
    for (const [name, value] of Object.entries(part)) {
      if (name === "opacity" && value?.legend) value.legend = null; // said in words above the chart
      if (value?.legend?.columns) value.legend.columns = 2;
      if (value?.axis?.labelLimit) value.axis.labelLimit = 170;
      if (value && typeof value === "object") narrow(value);
    }
  }

  function fit(part, present) { // a legend names what its chart has
    if (part.field === "framework" && part.scale?.domain) {
      const { domain, range } = part.scale;
      const places = [...domain.keys()].filter((place) => present.has(domain[place]));
      part.scale = { domain: places.map((place) => domain[place]), range: places.map((place) => range[place]) };
    }
    for (const value of Object.values(part)) if (value && typeof value === "object") fit(value, present);
  }

  async function draw(element) {
    drawn.get(element)?.finalize();
    const spec = structuredClone(data.specs[element.dataset.chart]);
    fit(spec, new Set(rows(element).map((row) => row.framework)));
    spec.data = { values: rows(element) };
    if (!spec.data.values.length) {
      element.textContent = "Nothing to draw: the run ended before its ranks were ready.";
      return;
    }
    const { step } = spec.height;
    if (step) {
      const kinds = (channel) => new Set(spec.data.values.map((row) => row[channel?.field])).size;
      spec.height = step * kinds(spec.encoding.y) * kinds(spec.encoding.yOffset);
    }
    if (element.clientWidth < 640) narrow(spec);
    const actions = { export: true, source: false, compiled: false, editor: false };
    const config = structuredClone(data.themes[theme()]);
    if (element.clientWidth < 800) config.legend.layout = { top: { direction: "vertical", anchor: "start" } };
    const options = { config, renderer: "svg", actions, downloadFileName: element.dataset.chart };
    drawn.set(element, await vegaEmbed(element, spec, options));
  }

  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting && !drawn.has(target)) {
        drawn.set(target, undefined);
        draw(target).catch((error) => console.error(error));
      }
    }
  }, { rootMargin: "200px" });

  function tabulate(element) { // each chart has its table, made when it is opened
    const part = make("details", undefined, { className: "rows" });
    part.append(make("summary", "As a table"));
    part.addEventListener("toggle", () => {
      if (part.open) {
        const lines = rows(element);
        const columns = [...new Set(lines.flatMap((line) => Object.keys(line)))];
        const cell = (value) => (value == null ? "–" : typeof value === "number" ? `${+value.toPrecision(6)}` : `${value}`);
        part.replaceChildren(part.firstChild, grid(columns, lines.map((line) => columns.map((name) => cell(line[name])))));
      }
    });
    element.after(part);
  }

  const turning = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g; // the direction of the text beside them

  function make(tag, text, attributes = {}) {
    const element = Object.assign(document.createElement(tag), attributes);
    if (text !== undefined) element.textContent = `${text}`.replace(turning, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
    return element;
  }

  const seconds = (value) => (value == null ? "–" : `${value.toFixed(value < 10 ? 2 : 1)} s`);

  function facts(pairs) {
    const list = make("dl", undefined, { className: "facts" });
    for (const [name, value] of pairs) if (value != null && value !== "") list.append(make("dt", name), make("dd", value));
    return list;
  }

  function grid(columns, lines) {
    const table = make("table");
    const head = table.createTHead().insertRow();
    for (const name of columns) head.append(make("th", name));
    const body = table.createTBody();
    for (const line of lines) {
      const row = body.insertRow();
      line.forEach((cell, index) => row.append(make(index ? "td" : "th", cell)));
    }
    const figure = make("figure", undefined, { className: "table grid" });
    const scroll = make("div", undefined, { className: "scroll" });
    scroll.append(table);
    figure.append(scroll);
    return figure;
  }

  function fill(box, id) {
    const { record, words } = data.runs[id];
    const { identity, exit, phases, cluster } = record;
    const failure = exit.failure;
    const where = failure && [failure.node, failure.rank != null && `rank ${failure.rank}`].filter(Boolean).join(", ");
    const parts = [facts([
      ["state", exit.state + (exit.code ? ` (exit ${exit.code})` : "")],
      ["failure", failure && `${where ? `${where}: ` : ""}${failure.cause}`],
      ["workload", `${identity.workload}, ${identity.framework}, ${cluster.rank_map.length} ranks on ${cluster.name}`],
      ["started", identity.started],
      ["parameters", JSON.stringify(identity.parameters)],
      ["release", [identity.release, identity.commit && `commit ${identity.commit.slice(0, 12)}`, identity.dirty && "with changes that were not committed"].filter(Boolean).join(", ")],
      ["repeat", record.series && `${record.series.index} of ${record.series.total} (${record.series.label})`],
    ])];
    if (failure?.last_lines.length) parts.push(make("pre", failure.last_lines.join("\n")));
    for (const line of words) parts.push(make("p", line));
    const chart = make("div", undefined, { className: "chart" });
    Object.assign(chart.dataset, { chart: "timeline", run: id });
    parts.push(chart);
    parts.push(grid(Object.keys(phases), [Object.values(phases).map(seconds)]));
    const names = [...new Set(record.ranks.flatMap((rank) => Object.keys(rank.phases)))];
    const size = (bytes) => (bytes == null ? "–" : bytes < 1e3 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`);
    const memory = (bytes) => (bytes == null ? "–" : `${(bytes / 2 ** 20).toFixed(0)} MiB`);
    parts.push(grid(["rank", "node", ...names, "CPU", "peak memory"], record.ranks.map((rank) => [
      rank.rank < 0 ? "driver" : `${rank.rank}`, rank.node ?? "–",
      ...names.map((name) => seconds(rank.phases[name])), seconds(rank.cpu_seconds), memory(rank.peak_bytes)])));
    if (record.use.length) {
      parts.push(grid(["node", "CPU", "memory at once", "largest process", "read", "written", "received", "sent"], record.use.map((use) => [
        use.node, seconds(use.cpu_seconds), memory(use.peak_bytes), memory(use.largest_bytes), size(use.read_bytes),
        size(use.written_bytes), size(use.received_bytes), size(use.sent_bytes)])));
      parts.push(make("p", data.about_use, { className: "note" }));
    }
    if (record.show.length) parts.push(make("pre", record.show.join("\n")));
    for (const line of record.warnings) parts.push(make("p", line, { className: "warning" }));
    const text = `${JSON.stringify(record, null, 1)}\n`;
    const raw = make("details", undefined, { className: "record" });
    const link = make("a", `${id}.json`, { download: `${id}.json`, href: URL.createObjectURL(new Blob([text], { type: "application/json" })) });
    const line = make("p", "As a file: ");
    line.append(link);
    raw.append(make("summary", "The record"), line, make("pre", text));
    parts.push(raw);
    box.replaceChildren(...parts);
    seen.observe(chart);
    tabulate(chart);
  }

  const dialog = document.getElementById("run");

  function route() {
    const id = location.hash.startsWith("#run=") ? decodeURIComponent(location.hash.slice(5)) : "";
    if (id && data.runs[id]) {
      dialog.querySelector("h2").textContent = id;
      fill(dialog.querySelector(".filled"), id);
      if (!dialog.open) dialog.showModal();
      dialog.scrollTop = 0;
    } else if (dialog.open) dialog.close();
  }

  dialog.addEventListener("close", () => {
    if (location.hash.startsWith("#run=")) history.replaceState(null, "", location.pathname + location.search);
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());

  const button = document.getElementById("theme");
  const next = { auto: "light", light: "dark", dark: "auto" };
  function redraw() {
    button.textContent = root.dataset.theme;
    for (const [element, view] of [...drawn]) {
      if (!element.isConnected) drawn.delete(element);
      else if (view) draw(element).catch((error) => console.error(error));
    }
  }
  button.addEventListener("click", () => {
    root.dataset.theme = next[root.dataset.theme] ?? "auto";
    try { localStorage.setItem("regatta-theme", root.dataset.theme); } catch { /* a page without storage */ }
    redraw();
  });
  dark.addEventListener("change", redraw);

  const table = document.querySelector("#run-table table");
  const lines = [...table.tBodies[0].rows];
  const filter = document.getElementById("filter");
  const count = document.getElementById("count");
  function sift() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const line of lines) {
      const text = line.textContent.toLowerCase();
      line.hidden = !words.every((word) => text.includes(word));
      shown += line.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${lines.length}`;
  }
  filter.addEventListener("input", sift);

  function number(text) {
    const clock = /^(?:(\d+):)?(\d+)'(\d+)''$/.exec(text);
    if (clock) return (clock[1] ?? 0) * 3600 + clock[2] * 60 + +clock[3];
    const plain = /^(-?[\d.]+)( s)?$/.exec(text);
    return plain ? +plain[1] : text === "–" ? -1 : NaN;
  }
  function sort(head) {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (line) => line.cells[head.cellIndex].textContent;
    const order = (a, b) => (Number.isNaN(number(key(a)) + number(key(b))) ? key(a).localeCompare(key(b)) : number(key(a)) - number(key(b)));
    table.tBodies[0].append(...lines.sort((a, b) => (up ? order(a, b) : order(b, a))));
  }
  for (const head of table.tHead.rows[0].cells) {
    head.tabIndex = 0;
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(head); });
  }

  async function drawAll() {
    for (const element of document.querySelectorAll(".chart")) {
      if (!drawn.has(element) && element.clientWidth) {
        drawn.set(element, undefined);
        await draw(element).catch((error) => console.error(error));
      }
    }
  }

  data = await unpack(document.getElementById("payload").textContent);
  button.textContent = root.dataset.theme;
  sift();
  for (const element of document.querySelectorAll(".chart")) {
    seen.observe(element);
    tabulate(element);
  }
  for (const choice of document.querySelectorAll("[data-timeline]")) {
    const figure = choice.closest("figure");
    const choose = (again) => {
      const chart = figure.querySelector(".chart");
      chart.dataset.run = choice.value;
      const said = figure.querySelector(".said");
      said.textContent = data.runs[choice.value].words.join(" ");
      said.dataset.run = choice.value; // printed, where nothing can be chosen
      if (again) draw(chart).catch((error) => console.error(error));
    };
    choice.addEventListener("change", () => choose(true));
    choose(false);
  }
  const only = document.getElementById("one");
  if (only) fill(only.querySelector(".filled"), only.dataset.run);
  addEventListener("hashchange", route);
  route();
  root.dataset.ready = "yes";
  const shut = [];
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not(.rows):not([open])")) shut.push(Object.assign(part, { open: true }));
  });
  addEventListener("afterprint", () => { for (const part of shut.splice(0)) part.open = false; });
  const printed = location.hash === "#print"; // `report --pdf` opens the page so: all parts are to be printed
  if (printed) {
    root.dataset.printed = "yes"; // as wide as paper, so that words in charts can be read
    for (const part of document.querySelectorAll("details:not(.rows)")) part.open = true;
  }
  const when = printed ? (work) => work() : (window.requestIdleCallback ?? setTimeout);
  when(() => drawAll().then(() => { root.dataset.drawn = "yes"; }));
})();
