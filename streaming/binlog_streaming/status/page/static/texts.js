// How values read. Names come from databases: they go into the page as text alone, and nothing in them stays hidden.

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text) {
  return String(text).replace(UNSEEN, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function duration(seconds) {
  const value = Math.max(seconds, 0);
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 60) return `${value.toFixed(0)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 10) return `${minutes} min ${Math.floor(value % 60)} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

export function bytes(size) {
  let value = size;
  let unit = "B";
  for (const larger of ["kB", "MB", "GB", "TB"]) {
    if (value < 999.5) break;
    value /= 1000;
    unit = larger;
  }
  return unit === "B" ? `${Math.round(value)} B` : `${value.toFixed(1)} ${unit}`;
}

export function count(number) {
  return Math.round(number).toLocaleString("en-US");
}

export function counted(number, one) {
  return `${count(number)} ${number === 1 ? one : `${one}s`}`;
}

export function clock(seconds) {
  return `${new Date(seconds * 1000).toISOString().slice(11, 19)} UTC`;
}

export function ago(seconds, now) {
  return `${duration(now - seconds)} ago`;
}

// An element; children are elements, or text. There is no way in for markup.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}

export function nameOf(text) {
  return element("bdi", { class: "name", title: visible(text) }, visible(text));
}
