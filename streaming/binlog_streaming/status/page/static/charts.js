// Two small charts and the picture of a file, as SVG.

import { clock } from "./texts.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 120;
const LEFT = 8;
const BOTTOM = 18;
const MINUTES = 60;

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// A bar for each of the last sixty minutes; `width` in pixels, so that text has its size.
export function bars(minutes, now, width, value, text, label) {
  const svg = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label, class: "chart" });
  const last = Math.floor(now / 60) * 60;
  const values = minutes.map((minute) => [minute.start, value(minute)]).filter(([, amount]) => amount !== null);
  const top = Math.max(...values.map(([, amount]) => amount), 0);
  const room = (width - LEFT) / MINUTES;
  const floor = HEIGHT - BOTTOM;
  svg.append(shape("line", { x1: LEFT, x2: width, y1: floor + 0.5, y2: floor + 0.5, class: "axis" }));
  for (const [start, amount] of values) {
    const place = MINUTES - 1 - (last - start) / 60;
    if (place < 0 || place >= MINUTES || amount < 0) continue;
    const size = top > 0 ? Math.max((amount / top) * (floor - 18), amount > 0 ? 1.5 : 0) : 0;
    const bar = shape("rect", { x: LEFT + place * room + 1, y: floor - size, width: room - Math.min(room / 3, 2), height: size, rx: 1.5 });
    bar.append(shape("title", {}, `${clock(start)}: ${text(amount)}`));
    svg.append(bar);
  }
  if (top > 0) svg.append(shape("text", { x: LEFT, y: 11, class: "top" }, text(top)));
  else svg.append(shape("text", { x: width / 2, y: floor / 2 + 6, class: "none" }, "nothing in the last hour"));
  for (const [minutesAgo, anchor] of [[60, "start"], [30, "middle"], [0, "end"]]) {
    const x = LEFT + (MINUTES - minutesAgo) * room;
    const words = minutesAgo === 0 ? "now" : `−${minutesAgo} min`;
    svg.append(shape("text", { x, y: HEIGHT - 3, "text-anchor": anchor, class: "tick" }, words));
  }
  return svg;
}

// A file: a cell for each page, or for several, filled by what is in it.
export function cells(map, columns) {
  const rows = Math.ceil(map.cells.length / columns);
  const label = `${map.pages} pages of ${map.file}`;
  const svg = shape("svg", { viewBox: `0 0 ${columns * 10} ${rows * 10}`, role: "img", "aria-label": label });
  map.cells.forEach((shares, number) => {
    const y = Math.floor(number / columns) * 10 + 0.5;
    let x = (number % columns) * 10 + 0.5;
    shares.forEach((share, color) => {
      if (share === 0) return;
      const width = (share / 255) * 9;
      svg.append(shape("rect", { x, y, width, height: 9, fill: map.colors[color] }));
      x += width;
    });
  });
  const x = (map.read_to % columns) * 10;
  const y = Math.floor(map.read_to / columns) * 10;
  svg.append(shape("rect", { x: x + 0.5, y: y + 0.5, width: 9, height: 9, class: "here" }));
  return svg;
}
