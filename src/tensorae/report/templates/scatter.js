// The map: points on a canvas, axes and lines above it in SVG. No network, no dependency.
"use strict";
// The root is a document or a shadow. Where rows can be selected, `onSelect` gets their numbers.
const drawMap = (root, data, onSelect = null) => {
  const byId = (id) => root.getElementById(id);
  const plot = byId("plot"), tip = byId("tip"), spoken = byId("spoken");
  const canvas = plot.querySelector("canvas"), svg = plot.querySelector("svg");
  const chosen = { x: byId("x"), y: byId("y") };
  const n = data.rows.length;

  const shapes = data.clusters.map((cluster) => new Path2D(SHAPES[cluster.marker]));
  const hidden = new Set(), selected = new Set();
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paper = window.matchMedia("print");
  const place = { x: new Float64Array(n), y: new Float64Array(n) };  // of each point, in pixels
  const NEAR = 24, MOST_IN_TIP = 10, PAPER = 700;
  let box, scale, zoomed = null, current = -1, printing = false;

  // Columns -------------------------------------------------------------------------------------

  // Clusters are spread over a strip each, the same way every time.
  for (const column of data.columns) {
    column.shown = column.key !== "cluster" ? column.values
      : column.values.map((value, i) => value + 0.7 * ((i * 0.6180339887) % 1 - 0.5));
  }
  const columnOf = (axis) => data.columns[chosen[axis].value];

  const fillChoice = (select, start) => {
    const groups = new Map();
    data.columns.forEach((column, i) => {
      if (!groups.has(column.group)) {
        const group = document.createElement("optgroup");
        group.label = column.group;
        groups.set(column.group, select.appendChild(group));
      }
      const option = new Option(column.name, i, i === start, i === start);
      groups.get(column.group).append(option);
    });
  };

  // Scales --------------------------------------------------------------------------------------

  const rangeOf = (column) => {
    let low = Infinity, high = -Infinity;
    for (const value of column.shown) {
      if (value === null) continue;
      low = Math.min(low, value); high = Math.max(high, value);
    }
    if (low > high) return [0, 1];  // no value is there
    const margin = 0.05 * (high > low ? high - low : Math.abs(high) || 1);
    return [low - margin, high + margin];
  };

  // Whole numbers only, where a column has no others.
  const ticksFor = (column, range, count) => {
    const whole = column.key === "cluster" || column.key === "row";
    return ticksOf(range, count).filter((tick) => !whole || Number.isInteger(tick.value));
  };

  const layOut = () => {
    // Paper is narrower than most screens; what is drawn is scaled to its width.
    const width = printing ? PAPER : plot.clientWidth, height = Math.round(Math.min(Math.max(0.6 * width, 300), 560));
    const ranges = zoomed || { x: rangeOf(columnOf("x")), y: rangeOf(columnOf("y")) };
    const ticks = { y: ticksFor(columnOf("y"), ranges.y, height / 60) };
    const widest = Math.max(0, ...ticks.y.map((tick) => tick.text.length));
    box = { left: 34 + 7 * widest, top: 8, right: width - 10, bottom: height - 46, width, height };
    ticks.x = ticksFor(columnOf("x"), ranges.x, (box.right - box.left) / 90);
    const slope = {
      x: (box.right - box.left) / (ranges.x[1] - ranges.x[0]),
      y: (box.top - box.bottom) / (ranges.y[1] - ranges.y[0]),
    };
    scale = {
      ranges, ticks,
      x: (value) => box.left + (value - ranges.x[0]) * slope.x,
      y: (value) => box.bottom + (value - ranges.y[0]) * slope.y,
      back: { x: (p) => ranges.x[0] + (p - box.left) / slope.x, y: (p) => ranges.y[0] + (p - box.bottom) / slope.y },
    };
    // A missing value is drawn at the edge, where no other point is.
    const edge = { x: box.left + 1, y: box.bottom - 1 };
    for (const axis of ["x", "y"]) {
      const { shown } = columnOf(axis);
      for (let i = 0; i < n; i++) place[axis][i] = shown[i] === null ? edge[axis] : scale[axis](shown[i]);
    }
  };

  const inside = (i) => place.x[i] >= box.left && place.x[i] <= box.right
    && place.y[i] >= box.top && place.y[i] <= box.bottom;
  const visible = (i) => !hidden.has(data.labels[i]) && inside(i);

  // Drawing -------------------------------------------------------------------------------------

  const element = (name, attributes, parent = svg) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return parent.appendChild(made);
  };

  // Of the cluster, or of the level of a column; missing values are grey.
  const colorBy = () => data.colors[byId("color")?.value ?? -1];
  const colorOf = (i, onDark) => {
    const column = colorBy();
    const style = column ? column.levels[column.codes[i]] : data.clusters[data.labels[i]];
    return style ? (onDark ? style.dark : style.light) : "#999";
  };

  const drawKey = () => {
    const column = colorBy(), key = byId("color-key"), onDark = dark.matches && !printing;
    key.hidden = !column;
    key.replaceChildren();
    if (!column) return;
    key.append(`${column.name}: `);
    for (const level of column.levels) {
      const dot = key.appendChild(document.createElement("span"));
      dot.textContent = "\u25cf";
      dot.style.color = onDark ? level.dark : level.light;
      key.append(` ${level.name}\u2003`);
    }
    if (column.codes.includes(-1)) key.append("\u25cf missing in grey");
  };

  const drawGrid = (pen, ratio) => {
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.strokeStyle = printing ? "#e2e2de" : getComputedStyle(plot).getPropertyValue("--line");
    pen.lineWidth = 1;
    pen.beginPath();
    for (const tick of scale.ticks.x) { pen.moveTo(scale.x(tick.value), box.top); pen.lineTo(scale.x(tick.value), box.bottom); }
    for (const tick of scale.ticks.y) { pen.moveTo(box.left, scale.y(tick.value)); pen.lineTo(box.right, scale.y(tick.value)); }
    pen.stroke();
  };

  const drawPoints = () => {
    const ratio = printing ? 3 : window.devicePixelRatio || 1;
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
    const pen = canvas.getContext("2d");
    drawGrid(pen, ratio);
    const onDark = dark.matches && !printing;
    const crowd = Math.min(Math.max(Math.log10(n / 200) / 2, 0), 1);
    const radius = 4.6 - 2.2 * crowd;
    let count = 0;
    // A stride that visits all points in a mixed order, so that no cluster lies on top of another.
    const stride = strideOf(n);
    for (let step = 0, i = 0; step < n; step++, i = (i + stride) % n) {
      if (!visible(i)) continue;
      count++;
      pen.setTransform(ratio * radius, 0, 0, ratio * radius, ratio * place.x[i], ratio * place.y[i]);
      const weight = !selected.size || selected.has(i) ? 1 : 0.2;
      pen.globalAlpha = weight * (0.8 - 0.3 * crowd);
      pen.fillStyle = colorOf(i, onDark);
      pen.fill(shapes[data.labels[i]]);
      pen.globalAlpha = weight * (0.5 - 0.25 * crowd);
      pen.strokeStyle = onDark ? "#000" : "#222";
      pen.lineWidth = 0.6 / radius;
      pen.stroke(shapes[data.labels[i]]);
    }
    plot.dataset.drawn = count;
  };

  const drawFrame = () => {
    for (const tick of scale.ticks.x) {
      const at = scale.x(tick.value);
      element("text", { x: at, y: box.bottom + 17, "text-anchor": "middle" }).textContent = tick.text;
    }
    for (const tick of scale.ticks.y) {
      const at = scale.y(tick.value);
      element("text", { x: box.left - 7, y: at + 4, "text-anchor": "end" }).textContent = tick.text;
    }
    const middle = { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
    const across = element("text", { class: "name", x: middle.x, y: box.height - 8, "text-anchor": "middle" });
    across.textContent = shortened(columnOf("x").name, (box.right - box.left) / 7);
    const turn = `rotate(-90 14 ${middle.y})`;
    const up = element("text", { class: "name", x: 14, y: middle.y, "text-anchor": "middle", transform: turn });
    up.textContent = shortened(columnOf("y").name, (box.bottom - box.top) / 7);
  };

  const drawLines = () => {
    const x = columnOf("x").line, y = columnOf("y").line;
    const drawn = Boolean(x && y);
    byId("axes").disabled = byId("overall").disabled = !drawn;
    if (!drawn) return;
    const clip = element("clipPath", { id: "clip" }, element("defs", {}));
    element("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }, clip);
    const group = element("g", { "clip-path": "url(#clip)" });
    for (const line of data.lines) {
      const overall = line.cluster < 0;
      if (overall ? !byId("overall").checked : !byId("axes").checked || hidden.has(line.cluster)) continue;
      let way = "";
      for (let i = line.start; i < line.stop; i++) way += `${way ? "L" : "M"}${scale.x(x[i])} ${scale.y(y[i])}`;
      const kind = overall ? "overall" : `c${line.cluster}${line.place ? " minor" : ""}`;
      element("path", { class: `path casing ${kind}`, d: way }, group);
      element("path", { class: `path own ${kind}`, d: way }, group);
    }
  };

  const draw = () => {
    if (!plot.clientWidth) return;
    layOut();
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    drawFrame();
    drawPoints();
    drawKey();
    drawLines();
    byId("reset").hidden = !zoomed;
    byId("edge-note").hidden = ![columnOf("x"), columnOf("y")].some((column) => column.shown.includes(null));
    byId("frame-note").hidden = ![columnOf("x"), columnOf("y")].some((column) => column.key.startsWith("code"));
    if (current >= 0) visible(current) ? show(current) : leave();
  };

  // A point and its row -------------------------------------------------------------------------

  const entriesOf = (i) => {
    const entries = data.identifiers.map((column) => [column.name, column.values[i]]).filter((entry) => entry[1] !== "");
    const axes = [columnOf("x"), columnOf("y")];
    const rest = data.columns.filter((column) => column.group === "Features" && !axes.includes(column));
    const fit = data.columns.filter((column) => ["misfit", "confidence"].includes(column.key) && !axes.includes(column));
    const columns = [...axes, ...(data.sprite ? [] : rest.slice(0, MOST_IN_TIP)), ...fit];
    const known = new Set(["cluster", "row"]);
    return entries.concat(columns.filter((column) => !known.has(column.key)).map((column) => [column.name, readable(column.values[i])]));
  };

  const add = (parent, name, text) => {
    const made = parent.appendChild(document.createElement(name));
    made.textContent = text;  // as text, so that no name or value can be anything else
    return made;
  };

  const picture = (i) => {
    const { uri, columns, width, height } = data.sprite;
    const zoom = Math.max(1, Math.round(84 / Math.max(width, height)));
    const made = document.createElement("div");
    made.className = "picture";
    Object.assign(made.style, {
      width: `${zoom * width}px`, height: `${zoom * height}px`, backgroundImage: `url(${uri})`,
      backgroundSize: `${zoom * width * columns}px auto`,
      backgroundPosition: `-${zoom * width * (i % columns)}px -${zoom * height * Math.floor(i / columns)}px`,
    });
    return made;
  };

  const show = (i) => {
    current = i;
    tip.replaceChildren();
    add(tip, "p", `row ${data.rows[i]} \u00b7 cluster ${data.labels[i]}`);
    if (data.sprite) tip.append(picture(i));
    const list = tip.appendChild(document.createElement("dl"));
    for (const [name, value] of entriesOf(i)) { add(list, "dt", name); add(list, "dd", value); }
    tip.hidden = false;
    const x = place.x[i], y = place.y[i];
    const left = x + 14 + tip.offsetWidth <= box.width ? x + 14 : Math.max(0, x - 14 - tip.offsetWidth);
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(0, Math.min(y - tip.offsetHeight / 2, box.height - tip.offsetHeight))}px`;
    svg.querySelector(".ring")?.remove();
    element("circle", { class: "ring", cx: x, cy: y, r: 8 });
  };

  const leave = () => {
    current = -1;
    tip.hidden = true;
    svg.querySelector(".ring")?.remove();
  };

  const speak = () => {
    spoken.textContent = [tip.querySelector("p").textContent, ...entriesOf(current).map((entry) => entry.join(" "))].join(", ");
  };

  const nearest = (x, y) => {
    let best = -1, least = NEAR * NEAR;
    for (let i = 0; i < n; i++) {
      const apart = (place.x[i] - x) ** 2 + (place.y[i] - y) ** 2;
      if (apart < least && visible(i)) { best = i; least = apart; }
    }
    return best;
  };

  // The visible point that comes next along an axis; ties are broken by the order of the rows.
  const neighbour = (axis, sign) => {
    const value = (i) => sign * place[axis][i];
    let best = -1;
    for (let i = 0; i < n; i++) {
      if (i === current || !visible(i)) continue;
      const after = current < 0 || value(i) > value(current) || (value(i) === value(current) && sign * (i - current) > 0);
      const sooner = best < 0 || value(i) < value(best) || (value(i) === value(best) && sign * (i - best) < 0);
      if (after && sooner) best = i;
    }
    return best;
  };

  // Selection -----------------------------------------------------------------------------------

  const setSelected = (places) => {
    selected.clear();
    for (const i of places) selected.add(i);
    byId("n-selected").textContent = `${selected.size} selected`;
    byId("clear").hidden = !selected.size;
    draw();
  };
  // With more, points are added, or taken away where all of them are selected already.
  const select = (points, more) => {
    const known = more && points.length > 0 && points.every((i) => selected.has(i));
    const rest = [...selected].filter((i) => more && !(known && points.includes(i)));
    setSelected(known ? rest : [...rest, ...points]);
    onSelect([...selected].map((i) => data.rows[i]));
  };
  const selecting = () => onSelect !== null && byId("drag").value === "select";

  // What the reader does ------------------------------------------------------------------------

  const at = (event) => {
    const frame = svg.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  };
  let from = null, rectangle = null;

  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    from = at(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    const to = at(event);
    if (!from) {
      const i = nearest(to.x, to.y);
      if (i < 0) leave(); else if (i !== current) show(i);
      return;
    }
    leave();
    rectangle?.remove();
    rectangle = element("rect", {
      class: "frame", x: Math.min(from.x, to.x), y: Math.min(from.y, to.y),
      width: Math.abs(to.x - from.x), height: Math.abs(to.y - from.y),
    });
  });
  svg.addEventListener("pointerup", (event) => {
    const to = at(event);
    rectangle?.remove();
    rectangle = null;
    if (from && Math.abs(to.x - from.x) > 8 && Math.abs(to.y - from.y) > 8 && selecting()) {
      const within = (axis, i) => (place[axis][i] - from[axis]) * (place[axis][i] - to[axis]) <= 0;
      const all = Array.from(data.rows.keys());
      select(all.filter((i) => visible(i) && within("x", i) && within("y", i)), event.shiftKey);
    } else if (from && Math.abs(to.x - from.x) > 8 && Math.abs(to.y - from.y) > 8) {
      const between = (axis) => [scale.back[axis](from[axis]), scale.back[axis](to[axis])].sort((a, b) => a - b);
      zoomed = { x: between("x"), y: between("y") };
      draw();
    } else {
      const i = nearest(to.x, to.y);  // a touch has no hover
      if (i < 0) leave(); else show(i);
      if (i >= 0 && selecting()) select([i], event.shiftKey);
    }
    from = null;
  });
  svg.addEventListener("pointercancel", () => { rectangle?.remove(); rectangle = from = null; });
  svg.addEventListener("pointerleave", () => { if (!from) leave(); });
  svg.addEventListener("dblclick", () => { zoomed = null; draw(); });
  byId("reset").addEventListener("click", () => { zoomed = null; draw(); plot.focus(); });

  plot.addEventListener("keydown", (event) => {
    const ways = { ArrowRight: ["x", 1], ArrowLeft: ["x", -1], ArrowUp: ["y", -1], ArrowDown: ["y", 1] };
    if (event.key === "Escape") { leave(); return; }
    if (event.key === " " && current >= 0 && onSelect) { event.preventDefault(); select([current], true); return; }
    if (!ways[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const i = neighbour(...ways[event.key]);
    if (i >= 0) { show(i); speak(); }
  });
  plot.addEventListener("blur", leave);

  const choose = (x, y) => {
    [chosen.x.value, chosen.y.value] = [x, y];
    zoomed = null;
    draw();
  };
  for (const select of Object.values(chosen)) select.addEventListener("change", () => choose(chosen.x.value, chosen.y.value));
  byId("swap").addEventListener("click", () => choose(chosen.y.value, chosen.x.value));
  for (const id of ["axes", "overall", "color"]) byId(id)?.addEventListener("change", draw);

  // Legend --------------------------------------------------------------------------------------

  const buttons = [...root.querySelectorAll("[data-cluster]")];
  const labelOf = (button) => Number(button.dataset.cluster);
  const setHidden = (test) => {
    for (const button of buttons) {
      const hide = test(labelOf(button));
      if (hide) hidden.add(labelOf(button)); else hidden.delete(labelOf(button));
      button.setAttribute("aria-pressed", String(!hide));
    }
    draw();
  };
  for (const button of buttons) {
    const own = labelOf(button);
    button.querySelector("path").setAttribute("d", SHAPES[data.clusters[own].marker]);
    button.addEventListener("click", () => setHidden((label) => hidden.has(label) !== (label === own)));
    button.addEventListener("dblclick", () => setHidden((label) => label !== own));
  }
  byId("all-clusters")?.addEventListener("click", () => setHidden(() => false));
  byId("no-cluster")?.addEventListener("click", () => setHidden(() => true));

  // From elsewhere on the page ------------------------------------------------------------------

  const bringIntoView = () => {
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    plot.focus({ preventScroll: true });
    plot.scrollIntoView({ block: "center", behavior: calm ? "auto" : "smooth" });
  };
  const where = new Map(data.rows.map((row, i) => [row, i]));
  const keys = data.columns.map((column) => column.key);
  root.addEventListener("click", (event) => {
    const row = event.target.closest("[data-row]"), pair = event.target.closest("[data-x]");
    if (row) {
      const i = where.get(Number(row.dataset.row));
      zoomed = null;
      setHidden((label) => hidden.has(label) && label !== data.labels[i]);
      bringIntoView();
      show(i);
      speak();
    } else if (pair) {
      choose(keys.indexOf(pair.dataset.x), keys.indexOf(pair.dataset.y));
      bringIntoView();
    }
  });

  // Start ---------------------------------------------------------------------------------------

  const setPrinting = (now) => { if (printing !== now) { printing = now; leave(); draw(); } };
  window.addEventListener("beforeprint", () => setPrinting(true));
  window.addEventListener("afterprint", () => setPrinting(false));
  paper.addEventListener("change", () => setPrinting(paper.matches));
  dark.addEventListener("change", draw);
  fillChoice(chosen.x, data.start[0]);
  fillChoice(chosen.y, data.start[1]);
  new ResizeObserver(() => { if (!box || (!printing && plot.clientWidth !== box.width)) draw(); }).observe(plot);
  byId("clear")?.addEventListener("click", () => select([], false));
  draw();
  // For others to say which rows are selected.
  return (rows) => setSelected(rows.map((row) => where.get(row)).filter((i) => i !== undefined));
};
