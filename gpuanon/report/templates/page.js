"use strict";
// Tables sort by a click on a heading; the figures of the page can be saved as a file.
const value = (row, at) => {
  const cell = row.cells[at];
  const number = parseFloat(cell.dataset.v);
  return Number.isNaN(number) ? cell.textContent.trim() : number;
};
const compare = (a, b) => {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number") return -1;
  if (typeof b === "number") return 1;
  return a.localeCompare(b);
};
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, at) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const way = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", way);
      const rows = [...table.tBodies[0].rows];
      const sign = way === "ascending" ? 1 : -1;
      rows.sort((a, b) => {
        const [x, y] = [value(a, at), value(b, at)];
        if (x === "–" || y === "–") return (x === "–") - (y === "–");
        return sign * compare(x, y);
      });
      table.tBodies[0].append(...rows);
    });
  });
}
const save = document.getElementById("save");
if (save) {
  save.hidden = false;
  save.addEventListener("click", () => {
    const text = JSON.stringify(JSON.parse(document.getElementById("figures").textContent), null, 1);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = "figures.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
}
