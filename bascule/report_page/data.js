// Data and small helpers.
"use strict";
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

const texts = new Map();
async function linesOf(document_) {
  if (!texts.has(document_.blob)) texts.set(document_.blob, unpack(BLOBS[document_.blob]).then(text => text.split("\n")));
  return texts.get(document_.blob);
}

function el(tag, attributes = {}, ...children) {
  const made = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") made.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined));
  return made;
}

const grouped = n => n === null || n === undefined ? "" : Number(n).toLocaleString("en-US");
function bytes(n) {
  if (n === null || n === undefined) return "?";
  if (isNaN(n)) return String(n);  // an expression of symbols
  return n >= 1e9 ? (n / 1e9).toFixed(2) + " GB" : n >= 1e5 ? (n / 1e6).toFixed(1) + " MB" : n >= 1000 ? (n / 1e3).toFixed(1) + " kB" : n + " B";
}
const exactly = n => isNaN(n) ? String(n) : grouped(n);
const micro = us => us === null || us === undefined ? "" : us >= 1000 ? (us / 1000).toFixed(2) + " ms" : us.toFixed(1) + " us";
const milli = seconds => (1000 * seconds).toFixed(1) + " ms";
const short = place => place.replace(/^.*\/(?=[^/]*$)/, "").replace(/(\.py:\d+):0$/, "$1");
const lineKey = place => place.replace(/^(.*:\d+):\d+$/, "$1");

// A place of the user's, as a link into the code.
const place = source => source ? el("a", {class: "src", title: source, on: event => { event.stopPropagation(); openSource(lineKey(source)); }}, short(source)) : null;
const places = sources => (sources || []).flatMap((source, n) => n ? [" ", place(source)] : [place(source)]);

// A table: columns are [title, function of a row that gives a cell, whether it is a number]. `pick` is called with a clicked row.
function table(columns, rows, pick) {
  const head = el("tr", {}, columns.map(([title, , number]) => el("th", {class: number ? "n" : null}, title)));
  const body = rows.map(row => {
    const cells = columns.map(([, cell, number]) => el("td", {class: number ? "n" : null}, [cell(row)].flat()));
    const line = el("tr", {class: pick ? "pick" : null}, cells);
    if (pick) line.addEventListener("click", () => {
      for (const other of line.parentNode.querySelectorAll("tr.on")) other.classList.remove("on");
      line.classList.add("on");
      pick(row);
    });
    return line;
  });
  return el("table", {}, el("thead", {}, head), el("tbody", {}, body));
}

// A bar of a share of the largest.
const bar = (value, most, color) => !value ? "" : el("span", {class: "bar-cell"}, el("b", {style: `width:${most ? Math.max(1, 70 * value / most) : 0}px;background:${color || "#7aa6d6"}`}));
