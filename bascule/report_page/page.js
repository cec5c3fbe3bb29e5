// The frame: which graph, which view, what is searched for. The address keeps it, so that a link leads to a place.
const VIEWS = {
  overview: ["Overview", () => overview()],
  code: ["Code", graph => codeView(graph)],
  kernels: ["Kernels", kernels],
  fusion: ["Not fused", fusion],
  memory: ["Memory", memory],
  time: ["Compile time", time],
  calls: ["ATen and breaks", calls],
};
const state = {graph: 0, view: "overview", search: "", hit: 0, places: []};
let DATA_, code = null, shownFor = "";

function remember() {
  const parts = new URLSearchParams({view: state.view, graph: state.graph});
  if (state.search) parts.set("search", state.search);
  if (state.places.length) parts.set("source", DATA_.places[state.places[0]]);
  history.replaceState(null, "", "#" + parts);
}

function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (VIEWS[parts.get("view")]) state.view = parts.get("view");
  if (Number(parts.get("graph")) < DATA_.graphs.length) state.graph = Number(parts.get("graph"));
  state.search = parts.get("search") || "";
  const source = DATA_.places.indexOf(parts.get("source"));
  state.places = source >= 0 ? [source] : [];
}

const foundIs = text => { document.getElementById("found").textContent = text; };

function codeView(graph) {
  code = new CodeView(graph);
  code.ready.then(() => { if (code.places.size) for (const pane of code.panes) pane.document && pane.reveal(); code.searched(); });
  return code.element;
}

function go(view) {
  state.view = view;
  render();
}

function openSource(key) {
  const found = DATA_.places.indexOf(key);
  state.places = found >= 0 ? [found] : [];
  go("code");
}

function render() {
  const graph = DATA_.graphs[state.graph], view = document.getElementById("view"), [, draw] = VIEWS[state.view];
  for (const tab of document.getElementById("tabs").children) tab.setAttribute("aria-selected", tab.dataset.view === state.view);
  document.getElementById("graph").value = state.graph;
  foundIs("");
  if (state.view !== "code") code = null;
  view.className = state.view === "code" ? "wide" : "";
  view.replaceChildren(draw(graph));
  remember();
}

async function start() {
  DATA_ = JSON.parse(await unpack(DATA));
  recall();
  const tabs = document.getElementById("tabs"), graphs = document.getElementById("graph"), search = document.getElementById("search");
  tabs.append(...Object.entries(VIEWS).map(([name, [title]]) => el("button", {role: "tab", "data-view": name, on: () => go(name)}, title)));
  graphs.append(...DATA_.graphs.map((graph, n) => el("option", {value: n}, graph.name)));
  graphs.addEventListener("change", () => { state.graph = Number(graphs.value); render(); });
  search.value = state.search;
  search.addEventListener("input", () => { state.search = search.value; state.hit = 0; code ? code.searched() : render(); remember(); });
  search.addEventListener("keydown", event => { if (event.key === "Enter" && code) { state.hit += 1; code.searched(); } });
  render();
  document.body.dataset.ready = "yes";
}
start();
