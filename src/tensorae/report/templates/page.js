// The map, tables that sort, and details that open for the printer. No network, no dependency.
"use strict";
drawMap(document, JSON.parse(document.getElementById("points").textContent));
(() => {
  const valueOf = (row, place, kind) => {
    const cell = row.cells[place];
    if (kind === "text") return cell.textContent.trim();
    // What has no number goes to the end of a falling order.
    return cell.dataset.value === "" ? -Infinity : Number(cell.dataset.value);
  };

  const sort = (button) => {
    const head = button.closest("th");
    const place = head.cellIndex;
    const kind = button.dataset.kind;
    const body = head.closest("table").tBodies[0];
    // Numbers begin with the largest, texts with the first; the second click turns that round.
    const first = kind === "number" ? "descending" : "ascending";
    const second = kind === "number" ? "ascending" : "descending";
    const order = head.getAttribute("aria-sort") === first ? second : first;
    for (const other of head.parentNode.querySelectorAll("[aria-sort]")) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const words = new Intl.Collator(undefined, { numeric: true });
    const rows = [...body.rows].map((row) => ({ row, value: valueOf(row, place, kind) }));
    rows.sort((a, b) => sign * (kind === "number" ? a.value - b.value || 0 : words.compare(a.value, b.value)));
    body.append(...rows.map((entry) => entry.row));
  };

  for (const button of document.querySelectorAll(".sortable thead button")) {
    button.addEventListener("click", () => sort(button));
  }
  window.addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
})();
