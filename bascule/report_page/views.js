// The views of records: each gives an element. `graph` has a record, and a manifest where it was compiled as one.
const matches = (...texts) => !state.search || texts.join(" ").toLowerCase().includes(state.search.toLowerCase());
const program = graph => graph.manifest ? graph.manifest.program : {steps: [], buffers: [], aten: [], arena: null};
const kernelsOf = graph => graph.manifest ? graph.manifest.kernels : [];
const total = record => Object.values(record.seconds).reduce((sum, value) => sum + value, 0);
const nothing = text => el("p", {class: "dim"}, text);

function overview() {
  const rows = DATA_.graphs.map((graph, number) => ({graph, number})).filter(({graph}) => matches(graph.name));
  const launches = graph => program(graph).steps.filter(step => step.kind === "launch");
  const moved = graph => {
    const sizes = new Map(kernelsOf(graph).map(k => [k.name, k.bytes_read === null || k.bytes_written === null ? null : k.bytes_read + k.bytes_written]));
    return launches(graph).reduce((sum, step) => sum === null || sizes.get(step.name) === null ? null : sum + sizes.get(step.name), 0);
  };
  const columns = [
    ["graph", ({graph}) => graph.name], ["target", ({graph}) => graph.record.target],
    ["nodes", ({graph}) => grouped(graph.record.nodes), 1], ["kernels", ({graph}) => grouped(kernelsOf(graph).length), 1],
    ["launches", ({graph}) => grouped(launches(graph).length), 1], ["ATen calls", ({graph}) => grouped(program(graph).steps.filter(s => s.kind === "aten").length), 1],
    ["bytes of kernels", ({graph}) => bytes(moved(graph)), 1], ["arena", ({graph}) => program(graph).arena ? el("span", {class: "mono formula"}, bytes(program(graph).arena.arena)) : "", 1],
    ["not fused", ({graph}) => grouped(graph.manifest ? graph.manifest.remarks.filter(r => r.decision === "not fused").length : 0), 1],
    ["compile time", ({graph}) => milli(total(graph.record)), 1],
    ["", ({graph}) => graph.record.fallback ? "NOT COMPILED: " + graph.record.fallback : graph.record.cuts.length ? "in parts" : ""],
  ];
  const found = [el("h2", {}, "Graphs, side by side"), table(columns, rows, row => { state.graph = row.number; go("kernels"); })];
  const told = DATA_.told;
  found.push(el("h2", {}, "Recompiles"));
  found.push(told.recompiles && told.recompiles.length ? table([["frame", r => r.frame], ["why it was compiled again", r => r.reason]], told.recompiles) : nothing(told.recompiles ? "none" : "a dump does not tell of them: bascule.report does"));
  return el("div", {}, found);
}

function kernels(graph) {
  const {steps, buffers} = program(graph);
  if (!steps.length) return nothing("This graph has no program of its own.");
  const by = new Map(kernelsOf(graph).map(k => [k.name, k])), shown = steps.filter(s => matches(s.name, ...s.operators, s.source || ""));
  const size = step => { const k = by.get(step.name); return k ? k.bytes_read === null || k.bytes_written === null ? null : k.bytes_read + k.bytes_written : null; };
  const most = Math.max(1, ...shown.map(s => size(s) || 0)), slowest = Math.max(1e-9, ...shown.map(s => (by.get(s.name) || {}).measured_us || 0));
  const edges = edgesOf(steps);
  const aside = el("aside", {}, nothing("Choose a step: what it reads and makes, its schedule, why its neighbours are not fused."));
  const row = new Map(shown.map((s, n) => [s.step, n]));
  const arcs = edges.filter(e => row.has(e.from) && row.has(e.to));
  const svg = el("svg:svg", {width: 90, height: 0});
  const timed = what => kernelsOf(graph).some(k => k[what] !== null);
  const columns = [
    ["", s => el("span", {class: s.kind}, String(s.step)), 1],
    ["launched or called", s => el("div", {class: "name"}, el("span", {class: `mono ${s.kind}`}, s.name), " ", place(s.source))],
    ["over", s => el("span", {class: "mono once"}, (by.get(s.name) || {}).domain || "")],
    ["bytes", s => bytes(size(s)) === "?" ? "" : bytes(size(s)), 1], ["", s => bar(size(s), most)],
    ["operations", s => by.has(s.name) ? grouped(by.get(s.name).flops) : "", 1],
    ...(timed("predicted_us") ? [["predicted", s => micro((by.get(s.name) || {}).predicted_us), 1]] : []),
    ...(timed("measured_us") ? [["measured", s => micro((by.get(s.name) || {}).measured_us), 1], ["", s => bar((by.get(s.name) || {}).measured_us, slowest, "#d69a7a")]] : []),
  ];
  const made = table(columns, shown, step => {
    aside.replaceChildren(...detail(graph, step, by.get(step.name), edges, steps, buffers));
    for (const arc of svg.children) arc.setAttribute("class", "arc" + (Number(arc.dataset.to) === step.step ? " in" : Number(arc.dataset.from) === step.step ? " out" : ""));
  });
  const main = el("div", {class: "main", style: "display:flex;align-items:flex-start"}, el("div", {}, svg), made);
  requestAnimationFrame(() => {  // rows have their heights now
    const lines = [...made.tBodies[0].rows], top = made.getBoundingClientRect().top;
    const middle = lines.map(line => { const box = line.getBoundingClientRect(); return box.top - top + box.height / 2; });
    svg.setAttribute("height", made.offsetHeight);
    svg.append(...arcs.map(e => {
      const a = middle[row.get(e.from)], b = middle[row.get(e.to)], reach = Math.min(84, 8 + Math.abs(b - a) / 5);
      return el("svg:path", {class: "arc", d: `M88,${a}C${88 - reach},${a} ${88 - reach},${b} 88,${b}`, "data-from": e.from, "data-to": e.to});
    }));
  });
  foundIs(`${shown.length} of ${steps.length} steps`);
  return el("div", {class: "split"}, main, aside);
}

// Which step made what a step reads.
function edgesOf(steps) {
  const makers = new Map(), edges = [];
  for (const step of steps) {
    for (const buffer of step.reads) if (makers.has(buffer)) edges.push({from: makers.get(buffer), to: step.step, buffer});
    for (const buffer of step.writes) makers.set(buffer, step.step);
  }
  return edges;
}

function detail(graph, step, kernel, edges, steps, buffers) {
  const tell = b => `${buffers[b].dtype}[${buffers[b].shape.join(", ")}] ${buffers[b].place}${buffers[b].offset === null ? "" : " at " + grouped(buffers[b].offset)}, ${bytes(buffers[b].bytes)}`;
  const maker = b => { const e = edges.find(e => e.to === step.step && e.buffer === b); return e ? `step ${e.from}, ${steps[e.from].name}` : "an input"; };
  const found = [el("h2", {}, step.name)];
  if (step.reason) found.push(el("p", {}, "Not generated: ", step.reason));
  if (kernel) {
    found.push(el("p", {}, kernel.operators.length + " operators in one launch: ", el("span", {class: "mono"}, kernel.operators.join(", "))));
    found.push(el("p", {}, places(kernel.sources)));
    const facts = [["domain", kernel.domain], ["read", bytes(kernel.bytes_read)], ["written", bytes(kernel.bytes_written)], ["operations", grouped(kernel.flops)], ["launches a run", kernel.calls], ["registers", kernel.registers], ["shared memory", kernel.shared_bytes && bytes(kernel.shared_bytes)], ["predicted", micro(kernel.predicted_us)], ["measured", micro(kernel.measured_us)], ["tuned", kernel.tuned]];
    found.push(table([["", f => f[0]], ["", f => String(f[1])]], facts.filter(f => f[1] !== null && f[1] !== undefined && f[1] !== "")));
  }
  found.push(el("h2", {}, "Reads and writes"));
  found.push(table([["", r => r[0]], ["buffer", r => el("span", {class: "mono"}, tell(r[1]))], ["made by", r => r[2]]], [...step.reads.map(b => ["reads", b, maker(b)]), ...step.writes.map(b => ["writes", b, "this"])]));
  if (kernel) {
    const near = new Set(edges.filter(e => e.from === step.step || e.to === step.step).flatMap(e => [steps[e.from].name, steps[e.to].name]));
    const isPartner = r => r.partner && near.has(r.kernel) && kernel.operators.includes(r.partner.operator) && kernel.sources.includes(r.partner.source);
    const said = graph.manifest.remarks.filter(r => r.kernel === kernel.name || isPartner(r));
    found.push(el("h2", {}, "What passes decided"), said.length ? el("div", {}, said.map(remarkLine)) : nothing("nothing was refused here"));
    found.push(el("h2", {}, "Schedule"), el("pre", {class: "mono"}, JSON.stringify(kernel.schedule, null, 1)));
  }
  return found;
}

const remarkLine = r => el("p", {}, el("span", {class: "mono"}, r.op.operator), " ", place(r.op.source), ` ${r.decision}`, r.partner ? " with " : "", r.partner ? el("span", {class: "mono"}, r.partner.operator) : null, " ", r.partner ? place(r.partner.source) : null, `: ${r.reason}`, r.cost ? el("b", {}, `; ${bytes(r.cost)} ${r.kind === "missed" ? "more" : "less"} memory traffic`) : null);

function fusion(graph) {
  const counted = new Map();
  for (const r of graph.manifest ? graph.manifest.remarks : []) {
    const key = JSON.stringify([r.pass, r.decision, r.reason, r.op, r.partner]);
    const known = counted.get(key) || {...r, times: 0, sum: 0};
    known.times += 1; known.sum += r.cost || 0;
    counted.set(key, known);
  }
  const rows = [...counted.values()].filter(r => matches(r.pass, r.decision, r.reason, r.op.operator, r.op.source || "", r.partner ? r.partner.operator + r.partner.source : "")).sort((a, b) => (a.kind === "missed" ? 0 : 1) - (b.kind === "missed" ? 0 : 1) || b.sum - a.sum);
  foundIs(`${rows.length} of ${counted.size} remarks`);
  if (!counted.size) return nothing("No pass has a remark on this graph.");
  return table([
    ["cost", r => r.sum ? bytes(r.sum) : "", 1], ["times", r => r.times > 1 ? r.times : "", 1], ["", r => r.kind],
    ["operator", r => [el("span", {class: "mono"}, r.op.operator), " ", place(r.op.source)]], ["decision", r => r.decision],
    ["partner", r => r.partner ? [el("span", {class: "mono"}, r.partner.operator), " ", place(r.partner.source)] : ""], ["reason", r => r.reason], ["pass", r => el("span", {class: "mono"}, r.pass)],
  ], rows);
}

function memory(graph) {
  const {steps, buffers, arena} = program(graph), aside = el("aside", {}, nothing("Choose a buffer."));
  const placed = buffers.filter(b => b.place === "arena" && typeof b.offset === "number" && b.bytes && b.first !== null);
  const count = Math.max(1, steps.length), wide = 860, tall = placed.length ? 420 : 0, left = 90;
  const top = Math.max(1, ...placed.map(b => b.offset + b.bytes));
  const x = step => left + wide * step / count, y = offset => 10 + tall - tall * offset / top;
  const color = b => `hsl(${(b.buffer * 47) % 360} 45% 68%)`;
  const rects = placed.map(b => {
    const maker = (steps.find(s => s.writes.includes(b.buffer)) || {});
    const dim = !matches(maker.name || "", b.dtype, b.shape.join("x"), maker.source || "");
    const rect = el("svg:rect", {class: "buffer", x: x(b.first), y: y(b.offset + b.bytes), width: Math.max(1, x(b.last + 1) - x(b.first)), height: Math.max(1, tall * b.bytes / top), fill: dim ? "#e9edf1" : color(b), "data-buffer": b.buffer},
      el("svg:title", {}, `${b.dtype}[${b.shape.join(", ")}] ${bytes(b.bytes)} at ${grouped(b.offset)}, steps ${b.first} to ${b.last}`));
    rect.addEventListener("click", () => {
      for (const other of rect.parentNode.querySelectorAll("rect.on")) other.classList.remove("on");
      rect.classList.add("on");
      const users = steps.filter(s => s.reads.includes(b.buffer) || s.writes.includes(b.buffer));
      aside.replaceChildren(el("h2", {}, `${b.dtype}[${b.shape.join(", ")}]`), el("p", {}, `${bytes(b.bytes)} at offset ${grouped(b.offset)}, needed from step ${b.first} to ${b.last}`),
        table([["step", s => s.step, 1], ["", s => s.writes.includes(b.buffer) ? "writes" : "reads"], ["", s => [el("span", {class: "mono"}, s.name), " ", place(s.source)]]], users));
    });
    return rect;
  });
  const ticks = (placed.length ? [0, .25, .5, .75, 1] : []).flatMap(part => [el("svg:text", {x: 0, y: y(part * top) + 4}, bytes(Math.round(part * top))), el("svg:line", {x1: left, x2: left + wide, y1: y(part * top), y2: y(part * top), stroke: "#e3e8ed"})]);
  const axis = [0, .25, .5, .75, 1].map(part => el("svg:text", {x: x(part * count), y: tall + 26, "text-anchor": "middle"}, "step " + Math.round(part * count)));
  const sums = live(steps, buffers), peak = Math.max(1, ...sums.map(s => s.all)), low = tall + 60, deep = 110;
  const line = key => "M" + sums.map((s, n) => `${x(n)},${low + deep - deep * s[key] / peak}H${x(n + 1)}`).join("L");
  const chart = [el("svg:text", {x: 0, y: low + 10}, bytes(peak)), el("svg:path", {d: line("all"), fill: "none", stroke: "#2b6cb0"}), el("svg:path", {d: line("arena"), fill: "none", stroke: "#c05621"}), el("svg:text", {x: left, y: low - 8}, "live bytes at each step: intermediates in the arena (brown), with results (blue)")];
  const told = arena && !placed.length ? "No buffer is in the arena." : arena ? `The arena has ${exactly(arena.arena)} bytes for ${exactly(arena.asked)} bytes of intermediates; ${exactly(arena.live)} are live at one time.` : "This graph has no arena.";
  const svg = el("svg:svg", {viewBox: `0 0 ${left + wide + 20} ${low + deep + 20}`, style: "width:100%", id: "arena"}, ticks, rects, axis, chart);
  foundIs(`${placed.length} buffers`);
  return el("div", {class: "split"}, el("div", {class: "main"}, el("p", {}, told), steps.length ? svg : nothing("There are no steps."), outside(graph)), aside);
}

const PLACES = {own: "memory of its own", operator: "allocated by ATen"};

function outside(graph) {
  const {steps, buffers} = program(graph), maker = b => steps.find(s => s.writes.includes(b.buffer)) || {};
  const found = buffers.filter(b => PLACES[b.place] && b.first !== null && matches(maker(b).name || "", b.dtype, b.shape.join("x"), maker(b).source || ""));
  return el("div", {id: "outside"}, el("h2", {}, "Buffers outside of the arena"), found.length ? table([["buffer", b => el("span", {class: "mono"}, `${b.dtype}[${b.shape.join(", ")}]`)], ["bytes", b => b.bytes === null ? "?" : bytes(b.bytes), 1], ["made by", b => [el("span", {class: "mono"}, maker(b).name || ""), " ", place(maker(b).source)]],
    ["steps", b => `${b.first} to ${b.last}`, 1], ["", b => b.returned ? "returned" : PLACES[b.place]]], found) : nothing("none"));
}

function live(steps, buffers) {
  const sums = steps.map(() => ({all: 0, arena: 0}));
  for (const b of buffers) {
    if (b.place === "argument" || b.first === null || !b.bytes) continue;
    for (let n = b.first; n <= Math.min(b.last, steps.length - 1); n++) { sums[n].all += b.bytes; if (b.place === "arena") sums[n].arena += b.bytes; }
  }
  return sums;
}

function time(graph) {
  const rows = Object.entries(graph.record.seconds).map(([stage, seconds]) => ({stage, seconds})).filter(r => matches(r.stage)), sum = total(graph.record), most = Math.max(...rows.map(r => r.seconds), 1e-9);
  const passes = graph.record.fx_passes.filter(p => matches(p.name, p.stage));
  return el("div", {}, el("h2", {}, `Compile time of ${graph.name}: ${milli(sum)}, in the order of the stages`),
    table([["stage or pass", r => el("span", {class: "mono"}, r.stage)], ["time", r => milli(r.seconds), 1], ["share", r => (100 * r.seconds / sum).toFixed(1) + " %", 1], ["", r => bar(r.seconds, most)]], rows),
    el("h2", {}, "Passes over FX graphs"), passes.length ? table([["pass", p => el("span", {class: "mono"}, p.name)], ["of", p => p.stage], ["places changed", p => p.changes, 1], ["nodes", p => `${p.before} -> ${p.after}`, 1], ["time", p => milli(p.seconds), 1]], passes) : nothing("none ran for this graph"));
}

function calls(graph) {
  const record = graph.record, found = [], told = DATA_.told;
  if (record.fallback) found.push(el("div", {class: "warn"}, "Not compiled: " + record.fallback));
  for (const cut of record.cuts) found.push(el("div", {class: "warn"}, "Runs by itself, between compiled parts: " + cut));
  for (const refused of record.refused) found.push(el("div", {class: "warn"}, "A kernel did not compile: " + refused));
  if (record.replay) found.push(el("p", {}, "CUDA graph: " + record.replay));
  const asked = program(graph).steps.filter(s => s.kind === "aten" && matches(s.name, s.reason || "", s.source || ""));
  found.push(el("h2", {}, "Calls of ATen"), asked.length ? table([["step", s => s.step, 1], ["operator", s => el("span", {class: "mono"}, s.name)], ["user's line", s => place(s.source)], ["why it is not generated", s => s.reason || ""]], asked) : nothing("none"));
  found.push(el("h2", {}, "Graph breaks of Dynamo's"));
  const breaks = (told.breaks || []).filter(b => matches(b));
  found.push(told.breaks ? breaks.length ? el("div", {}, breaks.map(b => el("div", {class: "warn"}, b))) : nothing("none") : nothing("a dump does not tell of them: bascule.report does"));
  return el("div", {}, found);
}
