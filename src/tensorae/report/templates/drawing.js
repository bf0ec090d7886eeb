// What the map needs and the page knows nothing of: shapes, ticks, texts. No network, no dependency.
"use strict";

// Shapes of radius one, by matplotlib's names.
const SHAPES = {
  "o": "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
  "s": "M-.89-.89H.89V.89H-.89Z",
  "^": "M0-1.2L1.1.75H-1.1Z",
  "v": "M0 1.2L1.1-.75H-1.1Z",
  "<": "M-1.2 0L.75-1.1V1.1Z",
  ">": "M1.2 0L-.75-1.1V1.1Z",
  "D": "M0-1.25L1.25 0 0 1.25-1.25 0Z",
  "P": "M-.42-1.15H.42V-.42H1.15V.42H.42V1.15H-.42V.42H-1.15V-.42H-.42Z",
  "X": "M-1.1-.5L-.5-1.1 0-.6.5-1.1 1.1-.5.6 0 1.1.5.5 1.1 0 .6-.5 1.1-1.1.5-.6 0Z",
  "h": "M0-1.15L1-.57V.57L0 1.15-1 .57V-.57Z",
};

// Round numbers inside a range, about so many, with their texts.
const ticksOf = ([low, high], count) => {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((part) => part * power).find((part) => part >= rough);
  const ticks = [];
  const first = Math.ceil(low / step);
  // Bounded, since a range as narrow as rounding would never end.
  for (let i = 0; i < 50 && (first + i) * step <= high; i++) ticks.push((first + i) * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const plain = step >= 1e-5 && Math.max(Math.abs(low), Math.abs(high)) < 1e7;
  const format = (value) => plain ? value.toFixed(digits) : value.toPrecision(3);
  return ticks.map((value) => ({ value, text: format(value).replace("-", "\u2212") }));
};

// A step that visits all of so many places in a mixed order.
const strideOf = (count) => {
  const divisor = (a, b) => (b ? divisor(b, a % b) : a);
  let stride = Math.max(1, Math.round(count * 0.6180339887));
  while (divisor(stride, count) !== 1) stride++;
  return stride;
};

const shortened = (text, most) => (text.length <= most ? text : text.slice(0, Math.max(most - 1, 1)) + "\u2026");

// A number with six digits, without an exponent where it can do without.
const readable = (value) => {
  if (value === null) return "missing";
  if (typeof value !== "number") return value;
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-4 || size >= 1e9) ? value.toPrecision(4) : String(Number(value.toPrecision(6)));
  return text.replace("-", "\u2212");
};
