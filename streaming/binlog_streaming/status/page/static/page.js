// Shows what /events sends: whole parts of the status, whenever they change.

import { bars, cells } from "./charts.js";
import { ago, bytes, clock, count, counted, duration, element, nameOf, visible } from "./texts.js";

const status = {};
let skew = 0; // of this clock against the job's, in seconds
const at = (id) => document.getElementById(id);
const now = () => Date.now() / 1000 + skew;

function put(id, text) {
  const place = at(id);
  if (place.textContent !== text) place.textContent = text;
}

function fill(id, rows) {
  at(id).replaceChildren(...rows);
}

function cell(label, content, numeric = false) {
  return element("td", { "data-label": label, class: numeric ? "n" : null }, content);
}

function showHead() {
  const name = visible(status.name);
  put("name", name);
  document.title = `${name}: ${status.verdict.level === "ok" ? "" : `${status.verdict.level}, `}binlog-stream`;
  put("source", visible(status.source));
  put("target", visible(status.target));
  at("verdict").dataset.level = status.verdict.level;
  put("verdict-text", visible(status.verdict.text));
  fill("advice", status.verdict.advice.map((line) => element("li", {}, visible(line))));
  put("gtid", visible(status.gtid || status.position || "nothing yet"));
}

function showLag() {
  const log = status.log;
  if (log === null || log.problem !== null) {
    put("lag", "not known");
    put("lag-note", log === null ? "it reads no log" : visible(log.problem));
    return;
  }
  const waiting = log.size === 0 ? 0 : log.waiting_seconds;
  put("lag", log.size === 0 ? "0 s" : waiting === null ? bytes(log.size) : duration(waiting));
  const transactions = log.gtid ? `${counted(log.transactions, "transaction")}, ` : "";
  put("lag-note", log.size === 0 ? "every whole transaction of the log is taken" : `${transactions}${bytes(log.size)} wait`);
}

function showPurge() {
  const purge = status.log === null ? null : status.log.purge;
  const bar = at("purge-bar");
  bar.hidden = true;
  if (purge === null) {
    put("purge", "–");
    put("purge-note", "it reads no log");
  } else if (purge.risk === "timed") {
    const left = purge.left_seconds - (now() - status.now);
    const share = Math.max(Math.min(left / purge.expiry_seconds, 1), 0);
    put("purge", left > 0 ? duration(left) : "not safe");
    put("purge-note", `until the server may remove ${visible(purge.file)}, which it keeps for ${duration(purge.expiry_seconds)}`);
    bar.hidden = false;
    bar.dataset.level = share >= 0.5 ? "ok" : share >= 0.2 ? "warning" : "danger";
    bar.firstElementChild.style.inlineSize = `${share * 100}%`;
  } else {
    put("purge", { none: "archived", gone: "gone", unknown: "not known" }[purge.risk]);
    put("purge-note", purge.risk === "none" ? "the archive has what the server may remove" : purge.reason ? "see above" : "");
  }
}

function showLatency() {
  const last = status.batches.at(-1);
  const split = at("split");
  split.hidden = true;
  if (!last || last.log_seconds === null) {
    put("latency", "–");
    put("split-note", last ? "its commit time is not known" : "no batch yet");
    return;
  }
  const parts = [last.log_seconds, last.read_seconds, last.commit_seconds];
  const total = parts.reduce((sum, part) => sum + part, 0);
  put("latency", duration(total));
  put("split-note", `${duration(parts[0])} in the log, ${duration(parts[1])} read, ${duration(parts[2])} written`);
  if (total <= 0) return;
  split.hidden = false;
  [...split.children].forEach((part, number) => (part.style.inlineSize = `${(parts[number] / total) * 100}%`));
}

function showRate() {
  const since = now() - 60;
  const recent = status.batches.filter((batch) => batch.finished_at > since);
  const changes = recent.reduce((sum, batch) => sum + batch.changes, 0);
  const size = recent.reduce((sum, batch) => sum + (batch.size ?? 0), 0);
  // There may have been more batches within the minute than are listed.
  const span = recent.length === status.batches.length && recent.length > 1 ? now() - recent[0].finished_at : 60;
  put("rate", `${count(changes / span)}/s`);
  put("rate-note", `${bytes(size / span)}/s of the log; ${count(status.changes_total)} changes in all`);
}

function showCharts() {
  const width = Math.max(at("changes-chart").clientWidth, 200);
  const draw = (...how) => bars(status.minutes, now(), width, ...how);
  fill("changes-chart", [draw((minute) => minute.changes, (amount) => `${count(amount)} changes`, "Changes a minute")]);
  fill("lag-chart", [draw((minute) => minute.lag_seconds, duration, "Commit to target")]);
}

function tableState(table) {
  if (table.set_aside !== null) return ["danger", "set aside", `before ${table.stopped_before}: ${table.set_aside}`];
  if (table.snapshot !== null && table.snapshot.problem !== null) return ["warning", "snapshot failed", table.snapshot.problem];
  if (table.waits_for_snapshot) return ["warning", "waits for its snapshot", ""];
  if (table.is_complete === false) return ["muted", "not complete", ""];
  if (table.verified_through !== null) return ["ok", "verified", `through ${visible(table.verified_through)}`];
  return ["ok", table.is_complete ? "complete" : "followed", ""];
}

function state([level, text, reason]) {
  const shown = [element("span", { class: "pill", "data-level": level }, text)];
  if (reason) shown.push(element("span", { class: "reason" }, visible(reason)));
  return element("div", {}, ...shown);
}

function tableRow(table) {
  const targets = table.targets.map((target, number) =>
    element("div", { class: "target", title: visible(target) }, element("span", { class: "mode" }, table.modes[number]), nameOf(target)),
  );
  const commit = table.last_commit === null ? "–" : ago(table.last_commit, now());
  const schema = table.schema_changed_at === null ? "–" : `${ago(table.schema_changed_at, now())}, batch ${table.schema_changed_in}`;
  return element(
    "tr",
    {},
    cell("Table", nameOf(table.name)),
    cell("State", state(tableState(table))),
    cell("Changes", count(table.changes), true),
    cell("Last commit", commit),
    cell("Complete up to GTID", element("bdi", { class: "gtid" }, visible(table.gtid || "–"))),
    cell("Schema changed", schema),
    cell("Target", element("div", {}, ...(targets.length ? targets : ["–"]))),
  );
}

function showTables() {
  const wanted = at("filter").value.toLowerCase();
  const shown = status.tables.filter((table) => visible(table.name).toLowerCase().includes(wanted));
  fill("tables", shown.map(tableRow));
  const more = status.tables_total > status.tables.length ? `, the first ${count(status.tables.length)} shown` : "";
  put("tables-count", `${count(status.tables_total)}${more}`);
  const snapshots = status.tables.filter((table) => table.snapshot !== null);
  at("snapshots-section").hidden = snapshots.length === 0;
  fill("snapshots", snapshots.map(snapshotRow));
}

function snapshotRow(table) {
  const snapshot = table.snapshot;
  const known = snapshot.problem !== null ? ["danger", "failed", snapshot.problem] : snapshot.is_ended ? ["ok", "done", ""] : ["info", "running", ""];
  return element(
    "tr",
    {},
    cell("Table", nameOf(table.name)),
    cell("State", state(known)),
    cell("Rows", count(snapshot.rows), true),
    cell("Chunks", count(snapshot.chunks), true),
    cell("Began at GTID", element("bdi", { class: "gtid" }, visible(snapshot.begun_gtid ?? "–"))),
  );
}

function batchRow(batch) {
  return element(
    "tr",
    {},
    cell("Batch", count(batch.number), true),
    cell("Done", clock(batch.finished_at)),
    cell("Changes", count(batch.changes), true),
    cell("Log", batch.size === null ? "–" : bytes(batch.size), true),
    cell("Tables", count(batch.tables), true),
    cell("Waited", batch.log_seconds === null ? "–" : duration(batch.log_seconds), true),
    cell("Read", duration(batch.read_seconds), true),
    cell("Written", duration(batch.commit_seconds), true),
    cell("GTIDs", element("bdi", { class: "gtid" }, visible(batch.gtids || batch.position || "–"))),
  );
}

function showBatches() {
  fill("batches", [...status.batches].reverse().map(batchRow));
  put("batches-count", `${count(status.batches_total)} in all`);
}

function showErrors() {
  at("errors-section").hidden = status.errors.length === 0;
  const line = (error) =>
    element(
      "li",
      {},
      element("time", {}, `${new Date(error.at * 1000).toISOString().slice(0, 10)} ${clock(error.at)}`),
      element("p", { class: "what" }, visible(error.text)),
      error.hint ? element("p", { class: "todo" }, visible(error.hint)) : null,
    );
  fill("errors", [...status.errors].reverse().map(line));
}

const SHOWN_BY = {
  verdict: showHead,
  log: showLag,
  batches: showBatches,
  tables: showTables,
  errors: showErrors,
};

function take(message) {
  const parts = JSON.parse(message.data);
  Object.assign(status, parts);
  if ("now" in parts) skew = parts.now - Date.now() / 1000;
  for (const [part, show] of Object.entries(SHOWN_BY)) if (part in parts) show();
  tick();
  if ("minutes" in parts) showCharts();
  put("link", `live, ${status.phase}`);
  at("link").dataset.state = "live";
}

// What goes on without news.
function tick() {
  if (status.now === undefined) return;
  showPurge();
  showLatency();
  showRate();
}

function lost() {
  if (status.now === undefined) return put("link", "the job cannot be reached");
  put("link", `no connection to the job; as of ${clock(status.now)}`);
  at("link").dataset.state = "lost";
}

async function showMap() {
  if (!at("map").open) return;
  const map = await (await fetch("/map.json")).json();
  if (map.problem) {
    put("map-note", visible(map.problem));
    return;
  }
  const unit = map.pages_in_cell === 1 ? `a ${map.page_name}` : `${map.pages_in_cell} × ${map.page_name}`;
  put("map-note", `${visible(map.file)}, ${bytes(map.size)}, ${count(map.pages)} pages; a cell is ${unit}, the framed one is where the job is`);
  fill("map-cells", [cells(map, at("map").clientWidth < 600 ? 24 : 64)]);
  fill("map-legend", map.legend.map(legendLine));
}

function legendLine(line) {
  const sign = element("i", { class: line.sign });
  sign.style.setProperty("--color", line.color);
  return element("li", {}, sign, visible(line.label));
}

addEventListener("resize", () => status.minutes && showCharts());
const events = new EventSource("/events");
events.onmessage = take;
events.onerror = lost;
at("filter").addEventListener("input", showTables);
at("map").addEventListener("toggle", () => showMap().catch((error) => put("map-note", String(error))));
setInterval(tick, 1000);
