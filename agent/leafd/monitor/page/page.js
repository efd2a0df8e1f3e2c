// The status page: takes events (feed.py) and shows them. What came over the wire is only ever set as text.
"use strict";

const ROWS_SHOWN = 30;
const AGAIN_MS = 10000;
const PATIENCE_MS = 3000;
const HOUR_MS = 3600000;
const SPAN_MIN_MS = 300000;
const GAP_MS = 30000;
const HEIGHT = 150;
const MARGIN = { left: 52, right: 8, top: 8, bottom: 20 };

const base = document.documentElement.dataset.base;
const byId = (id) => document.getElementById(id);

// ---- what is known -------------------------------------------------------------------------------------------------

const known = { streams: new Map(), consumers: new Map(), history: { time: [] } };

function take(news) {
  const { whole, history, streams: _streams, consumers: _consumers, gone, ...sections } = news;
  Object.assign(known, sections);
  if (whole) {
    known.streams.clear();
    known.consumers.clear();
    known.history = history;
  } else if (history) {
    for (const [name, values] of Object.entries(history)) known.history[name].push(...values);
    const old = known.history.time.findIndex((at) => at > Date.now() - known.skew - HOUR_MS);
    if (old > 0) for (const column of Object.values(known.history)) column.splice(0, old);
  }
  for (const kind of ["streams", "consumers"]) {
    for (const key of (gone && gone[kind]) || []) known[kind].delete(key);
    for (const [key, row] of Object.entries(news[kind] || {})) known[kind].set(key, row);
  }
  known.skew = Date.now() - known.server.now;
}

// ---- texts ---------------------------------------------------------------------------------------------------------

const digits = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

const count = (value) => digits.format(value);

function scaled(value, units, step) {
  let unit = 0;
  while (Math.abs(value) >= step && unit < units.length - 1) { value /= step; unit += 1; }
  return (few.format(value) + " " + units[unit]).trim();
}

const size = (bytes) => scaled(bytes, ["B", "kB", "MB", "GB", "TB", "PB"], 1000);
const short = (value) => scaled(value, ["", "k", "M", "G"], 1000);
const rate = (value) => (value === null || value === undefined ? "" : value < 10 ? few.format(value) + "/s" : count(value) + "/s");
const many = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

function lasting(seconds) {
  if (seconds < 100) return `${Math.max(Math.round(seconds), 0)} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const two = (number) => String(number).padStart(2, "0");

function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}`;
}

function moment(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}:${two(at.getSeconds())}`;
}

// A round trip as Go writes it: 3.68287ms.
function trip(text) {
  const found = /^([\d.]+)(\D+)$/.exec(text);
  return found ? `${few.format(found[1])} ${found[2]}` : text;
}

function ago(text) {
  const at = text ? Date.parse(text) : NaN;
  return Number.isNaN(at) ? "" : `${lasting((Date.now() - known.skew - at) / 1000)} ago`;
}

// ---- elements ------------------------------------------------------------------------------------------------------

function made(tag, attributes = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

function drawn(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function look(element, classes) {
  const wanted = classes.filter(Boolean).join(" ");
  if (element.className !== wanted) element.className = wanted;
}

// A table whose rows stay the same elements from one event to the next. A column: title, text(row), and perhaps more(row),
// a second line, state(row), a class; number: true, short: true.
class Table {
  constructor(section, columns, nothing) {
    this.columns = columns;
    this.rows = new Map();
    this.body = made("tbody", { role: "rowgroup" });
    const head = made("tr", { role: "row" });
    for (const column of columns) {
      head.append(made("th", { scope: "col", role: "columnheader", class: column.number ? "number" : "" }, column.title));
    }
    // On a phone rows are blocks, and the roles keep it a table for those who hear it.
    this.table = made("table", { class: "rows", role: "table", "aria-labelledby": section.querySelector("h2").id },
      made("thead", { role: "rowgroup" }, head), this.body);
    this.nothing = made("p", { class: "none" }, nothing);
    section.append(made("div", { class: "scroll" }, this.table), this.nothing);
  }

  show(rows) {
    this.table.hidden = rows.length === 0;
    this.nothing.hidden = rows.length !== 0;
    const stays = new Set();
    let place = this.body.firstChild;
    for (const [key, row] of rows) {
      stays.add(key);
      let element = this.rows.get(key);
      if (!element) this.rows.set(key, (element = this.empty()));
      this.fill(element, row);
      if (element === place) place = place.nextSibling;
      else this.body.insertBefore(element, place);
    }
    for (const [key, element] of this.rows) {
      if (!stays.has(key)) { element.remove(); this.rows.delete(key); }
    }
  }

  empty() {
    const element = made("tr", { role: "row" });
    this.columns.forEach((column, number) => {
      const cell = number === 0 ? made("th", { scope: "row", role: "rowheader" }) : made("td", { role: "cell", "data-label": column.title });
      cell.append(made("span"));
      if (column.more) cell.firstChild.after(made("small"));
      element.append(cell);
    });
    return element;
  }

  fill(element, row) {
    this.columns.forEach((column, number) => {
      const cell = element.children[number];
      const text = column.text(row);
      say(cell.firstChild, text);
      if (column.more) say(cell.lastChild, column.more(row));
      look(cell, [column.number && "number", column.short && "short", !text && "nothing"]);
      if (column.state) look(cell.firstChild, ["state", column.state(row)]);
    });
  }
}

// ---- the tables ----------------------------------------------------------------------------------------------------

const COPY_WORDS = { level: "level", behind: "catching up", unknown: "asking", lost: "not followed" };
const COPY_STATES = { level: "good", behind: "slow", unknown: "slow", lost: "bad" };
const COPY_ORDER = { lost: 0, unknown: 1, behind: 2, level: 3 };

const links = new Table(byId("links"), [
  { title: "Peer", text: (one) => one.peer || one.address, more: (one) => (one.peer ? one.address + (one.others && `, or ${one.others}`) : "") },
  { title: "State", text: (one) => (one.up ? "linked" : "cut"), state: (one) => (one.up ? "good" : "bad") },
  { title: "It is a", text: (one) => one.role },
  { title: "Account", text: (one) => one.account },
  { title: "Round trip", number: true, text: (one) => trip(one.rtt), more: (one) => (one.round_trip_s === null ? "" : `now ${seconds(one.round_trip_s)}`) },
  { title: "Carries", number: true, text: (one) => (one.rate === null ? (one.up ? "not known" : "") : `${size(one.rate)}/s`), more: (one) => lossy(one) },
  { title: "Heard", number: true, text: (one) => (one.heard_s === null ? "" : `${lasting(one.heard_s)} ago`) },
  { title: "Budget used", number: true, text: spent, more: (one) => one.held },
  { title: "In", number: true, text: (one) => (one.up ? rate(one.in[2]) || "–" : ""), more: (one) => (one.up ? `${count(one.in[0])}, ${size(one.in[1])}` : "") },
  { title: "Out", number: true, text: (one) => (one.up ? rate(one.out[2]) || "–" : ""), more: (one) => (one.up ? `${count(one.out[0])}, ${size(one.out[1])}` : "") },
  { title: "Reason", text: (one) => one.error },
], "No leaf links, and none configured.");

const BOX_STATES = { "linked": "good", "two machines": "bad", "away": "bad", "never came": "slow" };

const boxes = new Table(byId("boxes"), [
  { title: "Box", text: (one) => one.name, more: (one) => one.address },
  { title: "State", text: boxState, more: (one) => (one.doubled ? `another at ${one.doubled} is refused` : ""), state: (one) => BOX_STATES[boxState(one)] },
  { title: "Last here", number: true, text: (one) => (one.linked ? "now" : ago(one.at) || "–"), more: (one) => (one.linked ? `linked ${ago(one.at)}` : "") },
  { title: "Behind", number: true, text: far },
  { title: "Version", text: (one) => one.version },
  { title: "Round trip", number: true, text: (one) => trip(one.rtt) },
], "No box is enrolled yet.");

function boxState(one) {
  if (one.doubled) return "two machines";
  return one.linked ? "linked" : one.at ? "away" : "never came";
}

const copies = new Table(byId("copies"), [
  { title: "Stream", text: (one) => one.stream, more: (one) => `${one.kind} of ${one.origin}` },
  { title: "State", text: (one) => COPY_WORDS[one.state], state: (one) => COPY_STATES[one.state] },
  { title: "Behind", number: true, text: (one) => far(one), more: before },
  { title: "Oldest missing", number: true, text: oldest },
  { title: "Level in", number: true, text: ready, more: (one) => one.held || (one.rate ? `${rate(one.rate)} nearer` : "") },
  { title: "Origin heard", number: true, text: (one) => (one.heard_s === null ? "–" : `${lasting(one.heard_s)} ago`) },
  { title: "Reason", text: (one) => one.error },
], "No stream is a mirror or has sources.");

const copiers = new Table(byId("copiers"), [
  { title: "Stream", text: (one) => one.stream, more: (one) => (severalAccounts() ? `account ${one.account}` : "") },
  { title: "State", text: (one) => (one.asks ? (one.behind ? "taking" : "level") : "away"), state: (one) => (one.asks ? (one.behind ? "slow" : "good") : "bad") },
  { title: "Taken by", text: (one) => one.copy || "not said", more: (one) => one.kind },
  { title: "Unconfirmed", number: true, text: far, more: (one) => (one.bytes ? `about ${size(one.bytes)}` : "") },
  { title: "Oldest", number: true, text: (one) => (one.behind && one.missing_s !== null ? lasting(one.missing_s) : "") },
  { title: "Level in", number: true, text: (one) => (one.behind && one.ready_s !== null ? `about ${lasting(one.ready_s)}` : ""), more: (one) => (one.behind ? one.held || (one.rate ? `${rate(one.rate)} nearer` : "") : "") },
  { title: "Asked", number: true, text: (one) => (one.asks ? "now" : `${lasting(one.seen_s)} ago`) },
], "No stream of this server is copied elsewhere.");

const servers = new Table(byId("servers"), [
  { title: "Cluster", text: (one) => one.cluster },
  { title: "State", text: (one) => (one.up ? "linked" : "not reached"), state: (one) => (one.up ? "good" : "bad") },
  { title: "Server", text: (one) => one.name },
  { title: "Connections", number: true, text: (one) => count(one.connections) },
], "This server is in no cluster.");

const group = new Table(byId("group"), [
  { title: "Server", text: (one) => one.name, more: (one) => one.cluster },
  { title: "State", text: (one) => (one.away_s === null ? "there" : "away"), more: (one) => (one.away_s === null ? "" : lasting(one.away_s)), state: (one) => (one.away_s === null ? "good" : "bad") },
  { title: "It is", text: (one) => one.part },
  { title: "Streams", number: true, text: (one) => count(one.streams), more: (one) => (one.shared ? `${count(one.shared)} with others` : "") },
  { title: "Behind", number: true, text: (one) => (one.lag === null ? "" : count(one.lag)) },
], "The servers have not founded their group yet.");

const shared = new Table(byId("shared"), [
  { title: "Stream", text: (one) => one.stream, more: (one) => (severalAccounts() ? `account ${one.account}` : "") },
  { title: "State", text: (one) => (one.leader ? "led" : "no leader"), state: (one) => one.state },
  { title: "Leader", text: (one) => one.leader },
  { title: "Others", text: (one) => one.others },
], "No stream is kept by several servers.");

function far(one) {
  return one.behind === null ? "not known" : count(one.behind);
}

function seconds(value) {
  return value < 1 ? `${few.format(value * 1000)} ms` : `${few.format(value)} s`;
}

// What was known before, or how much it is.
function before(one) {
  if (one.behind !== null) return one.bytes ? `about ${size(one.bytes)}` : "";
  return one.told[1] === null ? "" : `${count(one.told[0])} ${lasting(one.told[1])} ago`;
}

// Of the day, and of the month.
function spent(one) {
  return one.budgets.map(([period, limit, used]) => `${few.format((100 * used) / limit)} % of the ${period}'s ${size(limit)}`).join(", ");
}

function lossy(one) {
  const parts = [one.loss ? `${few.format(one.loss * 100)} % sent again` : "", one.waiting ? `${size(one.waiting)} under way` : ""];
  return parts.filter(Boolean).join(", ");
}

function oldest(one) {
  if (one.state === "level") return "–";
  return one.missing_s === null ? "not known" : `at most ${lasting(one.missing_s)}`;
}

function ready(one) {
  if (one.state === "level") return "–";
  return one.ready_s === null || one.state === "lost" ? "not known" : `about ${lasting(one.ready_s)}`;
}

// Rows of streams and consumers are lists; the order is that of view.py.
const streamOf = ([account, name, subjects, storage, messages, bytes, perSecond, first, last, lastTime, consumers, deleted]) =>
  ({ account, name, subjects, storage, messages, bytes, perSecond, first, last, lastTime, consumers, deleted });
const consumerOf = ([account, stream, name, pending, unacknowledged, redelivered, waiting, delivered, paused]) =>
  ({ account, stream, name, pending, unacknowledged, redelivered, waiting, delivered, paused });

const streams = new Table(byId("streams"), [
  { title: "Stream", text: (one) => one.name, more: (one) => [severalAccounts() ? `account ${one.account}` : "", one.subjects].filter(Boolean).join(": ") },
  { title: "Messages", number: true, text: (one) => count(one.messages), more: (one) => (one.deleted ? `${count(one.deleted)} deleted between` : "") },
  { title: "Size", number: true, text: (one) => size(one.bytes), more: (one) => (one.storage === "memory" ? "in memory" : "") },
  { title: "Rate", number: true, text: (one) => rate(one.perSecond) || "–" },
  { title: "First", number: true, text: (one) => count(one.first) },
  { title: "Last", number: true, text: (one) => count(one.last), more: (one) => ago(one.lastTime) },
  { title: "Consumers", number: true, text: (one) => count(one.consumers) },
], "No streams.");

const consumers = new Table(byId("consumers"), [
  { title: "Consumer", text: (one) => one.name, more: (one) => (severalAccounts() ? `${one.stream}, account ${one.account}` : one.stream) },
  { title: "Pending", number: true, text: (one) => count(one.pending) },
  { title: "Unacknowledged", number: true, text: (one) => count(one.unacknowledged) },
  { title: "Redelivered", number: true, text: (one) => count(one.redelivered) },
  { title: "Pulls waiting", number: true, text: (one) => count(one.waiting) },
  { title: "Delivered up to", number: true, text: (one) => count(one.delivered), more: (one) => (one.paused ? "paused" : "") },
], "No consumers.");

const warnings = new Table(byId("warnings"), [
  { title: "Time", short: true, text: (one) => moment(one[0]) },
  { title: "Level", short: true, text: (one) => (one[1] === "WRN" ? "warning" : "error") },
  { title: "What", text: (one) => one[2] },
], "No warnings and no errors since the start, or none that are kept.");

function severalAccounts() {
  let first;
  for (const row of known.streams.values()) {
    if (first === undefined) first = row[0];
    else if (row[0] !== first) return true;
  }
  return false;
}

// The long tables: a field that filters by name, and a button for more than ROWS_SHOWN.
class Long {
  constructor(section, table, kind, rows) {
    Object.assign(this, { table, kind, rows, all: false, wanted: "" });
    this.input = made("input", { type: "search", placeholder: "Filter by name", "aria-label": `Filter ${section.querySelector("h2").textContent} by name` });
    this.button = made("button", { type: "button" });
    this.told = made("span", { class: "quiet", role: "status" });
    this.tools = made("div", { class: "tools" }, this.input, this.told, this.button);
    section.querySelector("h2").after(this.tools);
    this.input.addEventListener("input", () => { this.wanted = this.input.value.toLowerCase(); this.show(); });
    this.button.addEventListener("click", () => { this.all = !this.all; this.show(); });
  }

  show() {
    const rows = this.rows();
    const found = rows.filter(([key]) => !this.wanted || key.toLowerCase().includes(this.wanted));
    const shown = this.all ? found : found.slice(0, ROWS_SHOWN);
    this.table.show(shown);
    const leftOut = known.left_out[this.kind];
    this.tools.hidden = rows.length <= 8 && !leftOut;
    this.button.hidden = found.length <= ROWS_SHOWN;
    say(this.button, this.all ? `Show ${ROWS_SHOWN}` : `Show all ${count(found.length)}`);
    const parts = [`${count(shown.length)} of ${count(rows.length + leftOut)}`];
    if (leftOut) parts.push(`${count(leftOut)} are not on this page`);
    say(this.told, parts.join("; "));
  }
}

const byKey = ([a], [b]) => (a < b ? -1 : 1);
const long = [
  new Long(byId("links"), links, "links", () => [...known.links].sort((a, b) => a.up - b.up)
    .map((one) => [`${one.role} ${one.peer} ${one.account} ${one.address}`, one])),
  new Long(byId("boxes"), boxes, "boxes", () => (known.boxes || []).map((one) => [one.name, one])),
  new Long(byId("copies"), copies, "copies", () => [...known.copies].sort((a, b) => COPY_ORDER[a.state] - COPY_ORDER[b.state])
    .map((one) => [`${one.account} ${one.stream} ${one.kind} ${one.origin}`, one])),
  new Long(byId("copiers"), copiers, "copiers", () => known.copiers
    .map((one) => [`${one.account} ${one.stream} ${one.kind} ${one.copy}`, one])),
  new Long(byId("servers"), servers, "servers", () => [...known.servers].sort((a, b) => a.up - b.up)
    .map((one) => [`${one.cluster} ${one.name}`, one])),
  new Long(byId("group"), group, "group", () => (known.group || []).map((one) => [one.name, one])),
  new Long(byId("shared"), shared, "shared", () => known.shared.map((one) => [`${one.account} ${one.stream}`, one])),
  new Long(byId("streams"), streams, "streams", () => [...known.streams].sort(byKey).map(([key, row]) => [key, streamOf(row)])),
  new Long(byId("consumers"), consumers, "consumers", () => [...known.consumers].sort(byKey).map(([key, row]) => [key, consumerOf(row)])),
];

// ---- tiles ---------------------------------------------------------------------------------------------------------

class Tile {
  constructor(title, withBar) {
    this.value = made("div", { class: "value" });
    this.more = made("div", { class: "more" });
    this.fill = made("i");
    this.bar = made("div", { class: "bar", "aria-hidden": "true" }, this.fill);
    this.bar.hidden = !withBar;
    this.element = made("div", { class: "card tile" }, made("h3", {}, title), this.value, this.bar, this.more);
    byId("tiles").append(this.element);
  }

  show(value, more, state = "", part = null) {
    say(this.value, value);
    say(this.more, more);
    this.value.className = `value ${state}`;
    this.bar.hidden = part === null;
    if (part !== null) {
      this.fill.style.width = `${Math.min(Math.max(part, 0), 1) * 100}%`;
      this.bar.className = `bar ${part > 0.95 ? "bad" : part > 0.8 ? "slow" : ""}`;
    }
  }
}

const tiles = {
  links: new Tile("Links"), copies: new Tile("Mirrors and sources"), traffic: new Tile("Messages in"),
  disk: new Tile("Disk"), memory: new Tile("Memory"), clients: new Tile("Clients"),
};

function showTiles() {
  const { server, memory, disk } = known;
  const cut = known.links.filter((one) => !one.up).length;
  const all = known.links.length + known.left_out.links;
  if (!all) tiles.links.show("none", "no leaf links, and none configured");
  else if (cut) tiles.links.show(`${count(cut)} cut`, `${count(all - cut)} of ${count(all)} linked`, "bad");
  else tiles.links.show(`${count(all)} linked`, known.links.length === 1 ? `round trip ${trip(known.links[0].rtt) || "not measured yet"}` : "all that are configured");
  const behind = known.copies.reduce((sum, one) => sum + (one.behind || 0), 0);
  const unknown = known.copies.filter((one) => one.behind === null).length;
  const lost = known.copies.filter((one) => one.state === "lost").length;
  if (!known.copies.length) tiles.copies.show("none", "no stream is a copy of another");
  else if (lost) tiles.copies.show(`${count(lost)} not followed`, behind ? `${many(behind, "message")} behind at least` : "how far they are behind is not known", "bad");
  else if (unknown) tiles.copies.show(`${count(unknown)} asking`, "how far they are behind is not known yet", "slow");
  else if (behind) tiles.copies.show(`${count(behind)} behind`, "catching up", "slow");
  else tiles.copies.show("level", `0 behind, ${many(known.copies.length, "origin")}`);
  const rates = server.rates;
  tiles.traffic.show(rate(rates.in_msgs) || "–", `out ${rate(rates.out_msgs) || "–"}; ${size(rates.in_bytes || 0)}/s in, ${size(rates.out_bytes || 0)}/s out`);
  if (!disk.used) tiles.disk.show("none", "JetStream is off");
  else tiles.disk.show(size(disk.stored), `${disk.bound ? `of ${size(disk.bound)} that streams may take; ` : ""}${size(disk.free)} free on the disk`, "", disk.bound ? disk.stored / disk.bound : null);
  tiles.memory.show(size(memory.used), [memory.limit ? `memory_limit ${size(memory.limit)}` : "no memory_limit", memory.stored ? `streams in memory ${size(memory.stored)} of ${size(memory.bound)}` : ""].filter(Boolean).join("; "), "", memory.limit ? memory.used / memory.limit : null);
  const speak = Object.entries(server.devices).map(([version, clients]) => `${count(clients)} MQTT ${version}, `).join("");
  const kept = server.sessions && server.sessions.kept ? `${many(server.sessions.kept, "session")} (${count(server.sessions.away)} away), ` : "";
  tiles.clients.show(count(server.clients), `${speak}${kept}${many(server.streams, "stream")}, ${many(server.consumers, "consumer")}, CPU ${few.format(server.cpu)} %`);
}

// ---- plots ---------------------------------------------------------------------------------------------------------

// The largest of 1, 2, 5 times a power of ten's steps that a scale needs for this value.
function rounded(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value) * power;
}

class Plot {
  constructor(title, series, show, bound) {
    Object.assign(this, { title, series, text: (value) => (value === null ? "not known" : show(value)), bound, at: null });
    this.keys = series.map((one, number) => made("span", { class: `key ${number ? "second" : "first"}` }));
    this.when = made("span", { class: "quiet" });
    this.svg = drawn("svg", { role: "img" });
    this.body = made("tbody");
    const head = made("tr", {}, made("th", { scope: "col" }, "Time"), ...series.map((one) => made("th", { scope: "col", class: "number" }, one.title)));
    const details = made("details", {}, made("summary", {}, "As a table"), made("table", {}, made("thead", {}, head), this.body));
    byId("plots").append(made("figure", { class: "card" }, made("figcaption", {}, made("h2", {}, title), ...this.keys, this.when), this.svg, details));
    this.svg.addEventListener("pointermove", (event) => { this.at = event.offsetX; this.show(); });
    this.svg.addEventListener("pointerleave", () => { this.at = null; this.show(); });
  }

  show() {
    const times = known.history.time;
    if (!times.length) return;
    const until = times[times.length - 1];
    const from = Math.max(Math.min(times[0], until - SPAN_MIN_MS), until - HOUR_MS);
    const width = Math.max(this.svg.clientWidth, 200);
    const bound = this.bound ? this.bound() : 0;
    const most = Math.max(...this.series.map((one) => Math.max(...known.history[one.name])), 1e-9);
    const top = rounded(bound && most > bound / 4 ? Math.max(most, bound) : most > 1e-6 ? most : 1);
    const x = (at) => MARGIN.left + ((at - from) / (until - from)) * (width - MARGIN.left - MARGIN.right);
    const y = (value) => HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    const parts = [...this.cuts(times, x), ...this.grid(width, from, until, top, x, y)];
    if (bound && bound <= top) parts.push(drawn("line", { class: "bound", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(bound), y2: y(bound) }));
    this.series.forEach((one, number) => {
      const line = this.line(times, known.history[one.name], x, y);
      if (!number && line.length) parts.push(drawn("path", { class: "under", d: line.map((run) => `M${run[0][0]},${y(0)}L${run.join("L")}L${run[run.length - 1][0]},${y(0)}Z`).join("") }));
      parts.push(drawn("path", { class: number ? "second" : "first", d: line.map((run) => `M${run.join("L")}${run.length === 1 ? "h1" : ""}`).join("") }));
    });
    let index = times.length - 1;
    if (this.at !== null) {
      const wanted = from + ((this.at - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (until - from);
      index = times.reduce((best, at, number) => (Math.abs(at - wanted) < Math.abs(times[best] - wanted) ? number : best), 0);
      parts.push(drawn("line", { class: "mark", x1: x(times[index]), x2: x(times[index]), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
    }
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.replaceChildren(...parts);
    this.series.forEach((one, number) => say(this.keys[number], `${one.title} ${this.text(known.history[one.name][index])}`));
    say(this.when, this.at === null ? "" : clock(times[index] + known.skew));
    this.tell(times, from, until);
  }

  // Runs of points without a gap: nothing was sampled while the box slept, or it was not known.
  line(times, values, x, y) {
    const runs = [];
    times.forEach((at, number) => {
      if (values[number] === null) return;
      if (!number || at - times[number - 1] > GAP_MS || values[number - 1] === null) runs.push([]);
      runs[runs.length - 1].push([x(at).toFixed(1), y(values[number]).toFixed(1)]);
    });
    return runs;
  }

  // Where a hub did not answer.
  cuts(times, x) {
    const found = [];
    times.forEach((at, number) => {
      if (!known.history.down[number]) return;
      const before = number && at - times[number - 1] < GAP_MS ? times[number - 1] : at;
      found.push(drawn("rect", { class: "cut", x: x(before), width: Math.max(x(at) - x(before), 1), y: MARGIN.top, height: HEIGHT - MARGIN.top - MARGIN.bottom }));
    });
    return found;
  }

  grid(width, from, until, top, x, y) {
    const parts = [];
    for (const value of [0, top / 2, top]) {
      parts.push(drawn("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }));
      parts.push(drawn("text", { x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, this.text(value)));
    }
    const most = width < 420 ? 2 : 4;
    for (let number = 0; number <= most; number += 1) {
      const at = from + (number * (until - from)) / most;
      const anchor = number === 0 ? "start" : number === most ? "end" : "middle";
      parts.push(drawn("text", { x: x(at), y: HEIGHT - 5, "text-anchor": anchor }, clock(at + known.skew)));
    }
    return parts;
  }

  // In words, and as a table of twelve moments.
  tell(times, from, until) {
    const words = this.series.map((one) => {
      const values = known.history[one.name];
      return `${one.title}: now ${this.text(values[values.length - 1])}, at most ${this.text(Math.max(...values))}`;
    });
    const cut = known.history.down.some(Boolean) ? " A link was cut for a part of that time." : "";
    this.svg.setAttribute("aria-label", `${this.title}, the last ${lasting((until - from) / 1000)}. ${words.join("; ")}.${cut}`);
    const each = Math.max(Math.ceil(times.length / 12), 1);
    const rows = times.map((at, number) => number).filter((number) => (times.length - 1 - number) % each === 0);
    this.body.replaceChildren(...rows.map((number) => made("tr", {},
      made("th", { scope: "row" }, clock(times[number] + known.skew)),
      ...this.series.map((one) => made("td", { class: "number" }, this.text(known.history[one.name][number]))))));
  }
}

const plots = [
  new Plot("Messages a second", [{ name: "in_msgs", title: "in" }, { name: "out_msgs", title: "out" }], short),
  new Plot("Backlog", [{ name: "behind", title: "copies behind" }, { name: "pending", title: "consumers pending" }], short),
  new Plot("Disk", [{ name: "disk", title: "files" }, { name: "stored", title: "messages" }], size),
  new Plot("Memory", [{ name: "memory", title: "resident" }], size, () => known.memory.limit),
];

// ---- the page ------------------------------------------------------------------------------------------------------

function show() {
  const { server, problems } = known;
  byId("plain").hidden = true;
  byId("page").hidden = false;
  const about = [`leafd ${server.program}, protocol of nats-server ${server.version}`, server.domain ? `domain ${server.domain}` : "", `up ${server.uptime}`];
  say(byId("about"), about.filter(Boolean).join(" · "));
  const wrong = problems.length + known.left_out.problems;
  byId("verdict").className = wrong ? "bad" : "good";
  say(byId("verdict"), wrong ? `${many(wrong, "thing")} ${wrong === 1 ? "needs" : "need"} attention` : "All is well");
  document.title = (problems.length ? "! " : "") + server.name;
  const more = known.left_out.problems ? [`and ${count(known.left_out.problems)} more`] : [];
  byId("problems").replaceChildren(...[...problems, ...more].map((text) => made("li", {}, text)));
  byId("servers").hidden = known.servers.length === 0;
  byId("group").hidden = !known.group;
  byId("shared").hidden = known.shared.length === 0;
  byId("advice").hidden = known.links.every((one) => one.up) && known.copies.every((one) => one.state !== "lost");
  byId("boxes").hidden = !known.boxes;
  showTiles();
  plots.forEach((plot) => plot.show());
  long.forEach((table) => table.show());
  warnings.show([...known.warnings].reverse().map((one, number) => [`${one[0]} ${number}`, one]));
}

function live(yes) {
  document.body.classList.toggle("stale", !yes);
  say(byId("live"), yes ? "live" : "not live: no answer from the server; trying again");
}

let late;

function listen() {
  const source = new EventSource(`${base}/events`);
  const hear = (event) => {
    clearTimeout(late);
    late = undefined;
    take(JSON.parse(event.data));
    live(true);
    show();
  };
  source.addEventListener("whole", hear);
  source.addEventListener("change", hear);
  source.addEventListener("error", () => {
    // The server ends every stream after a while, and the browser comes again at once: that is no trouble.
    if (late === undefined) late = setTimeout(() => live(false), PATIENCE_MS);
    // After an answer that is an error the browser gives up by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_MS);
  });
}

window.addEventListener("resize", () => { if (known.server) plots.forEach((plot) => plot.show()); });
say(byId("live"), "connecting");
listen();
