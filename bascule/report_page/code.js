// The code view: the user's source beside two documents of a graph, linked line to line. Only rows in sight are in the page.
const ROW = 18;

class Pane {
  constructor(owner, documents, chosen) {
    this.owner = owner;
    this.documents = documents;
    this.all = el("div", {class: "all"});
    this.code = el("div", {class: "code"}, this.all);
    this.select = el("select", {}, documents.map((d, n) => el("option", {value: n}, d.title)));
    this.select.addEventListener("change", () => this.show(Number(this.select.value)));
    this.element = el("div", {class: "pane"}, el("div", {class: "bar"}, this.select), this.code);
    this.code.addEventListener("scroll", () => this.draw());
    this.hits = [];
    this.ready = documents.length ? this.show(Math.max(0, chosen)) : Promise.resolve();
  }

  async show(number) {
    this.select.value = number;
    this.document = this.documents[number];
    this.lines = await linesOf(this.document);
    this.links = this.document.lines;
    this.all.style.height = this.lines.length * ROW + "px";
    const longest = Math.min(400, this.lines.reduce((most, line) => Math.max(most, line.length), 0));
    this.all.style.width = longest + 12 + "ch";
    const first = Number(Object.keys(this.links)[0] || 0);
    this.scrollTo(first);
    if (this.owner.places.size) this.reveal();
    this.owner.searched();
  }

  draw() {
    const height = this.code.clientHeight || 800;
    const first = Math.max(0, Math.floor(this.code.scrollTop / ROW) - 20), last = Math.min(this.lines.length, first + Math.ceil(height / ROW) + 40);
    const rows = [];
    for (let n = first; n < last; n++) {
      const links = this.links[n];
      const on = links && links.some(place => this.owner.places.has(place));
      const kinds = ["row", links ? "linked" : "", on ? "on" : "", this.hit === n ? "hit" : ""].filter(Boolean).join(" ");
      const row = el("div", {class: kinds, style: `top:${n * ROW}px`, "data-line": n + 1}, el("i", {}, String(n + 1)), this.lines[n]);
      if (links) row.addEventListener("click", () => this.owner.choose(links, this));
      rows.push(row);
    }
    this.all.replaceChildren(...rows);
  }

  // Scrolls to the first line that comes from the chosen places.
  reveal() {
    for (let n = 0; n < this.lines.length; n++) {
      const links = this.links[n];
      if (links && links.some(place => this.owner.places.has(place))) { this.scrollTo(n); return true; }
    }
    this.draw();
    return false;
  }

  scrollTo(n) {
    this.code.scrollTop = Math.max(0, n * ROW - (this.code.clientHeight || 400) / 3);
    this.draw();
  }
}

class CodeView {
  constructor(graph) {
    this.places = new Set(state.places);
    const documents = graph.documents, number = title => documents.findIndex(d => d.title.startsWith(title));
    const triton = documents.findIndex(d => d.title.endsWith(".ttir"));
    this.panes = [
      new Pane(this, DATA_.sources, this.sourceOf([...this.places])),
      new Pane(this, documents, number("tensor stage, before")),
      new Pane(this, documents, triton >= 0 ? triton : number("program stage")),
    ];
    this.element = el("div", {class: "panes"}, this.panes.map(pane => pane.element));
    this.ready = Promise.all(this.panes.map(pane => pane.ready));
  }

  sourceOf(chosen) {
    return DATA_.sources.findIndex(source => chosen.some(place => DATA_.places[place].startsWith(source.title + ":")));
  }

  // The lines of the user's that were clicked; `from` stays where it is.
  async choose(chosen, from) {
    this.places = new Set(chosen);
    state.places = [...chosen];
    const source = this.sourceOf(chosen);
    if (source >= 0 && from !== this.panes[0] && this.panes[0].document !== DATA_.sources[source]) await this.panes[0].show(source);
    for (const pane of this.panes) pane === from ? pane.draw() : pane.document && pane.reveal();
    remember();
  }

  searched() {
    const text = state.search.toLowerCase();
    let count = 0;
    for (const pane of this.panes || []) {
      pane.hit = undefined;
      if (!pane.lines) continue;
      if (text) {
        const hits = pane.lines.flatMap((line, n) => line.toLowerCase().includes(text) ? [n] : []);
        count += hits.length;
        if (hits.length) { pane.hit = hits[state.hit % hits.length]; pane.scrollTo(pane.hit); continue; }
      }
      pane.draw();
    }
    foundIs(text ? `${count} lines` : "");
  }
}
