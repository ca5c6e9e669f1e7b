// The intervals as one plot: point at a model to see which are level with it, keep it by a click or the space bar.
// And a button that copies the permanent address.
"use strict";

(() => {
  const find = (selector) => document.querySelector(selector);
  const hint = find("#plot")?.textContent;
  let kept = null; // the name of the model that was chosen
  let shown; // the row that the others are held against

  const rows = () => [...document.querySelectorAll(".board tbody tr")];
  const nameOf = (row) => row.querySelector("th a").textContent;

  function intervalOf(row) {
    const line = row.querySelector(".whisker > line");
    return line && ["x1", "x2"].map((end) => Number.parseFloat(line.getAttribute(end)));
  }

  // Models of several groups stand on scales of their own, which do not compare.
  const comparable = () => find(".board .whisker #ticks line") !== null;

  function show(row) {
    if (row === shown || !find("#plot")) return;
    shown = row;
    const own = row && comparable() && intervalOf(row);
    const level = [];
    for (const other of rows()) {
      const interval = own && intervalOf(other);
      const apart = interval && (interval[0] > own[1] || interval[1] < own[0]);
      other.classList.toggle("apart", Boolean(apart));
      other.classList.toggle("chosen", Boolean(own) && other === row);
      if (interval && !apart && other !== row) level.push(other);
    }
    find("#plot").textContent = own ? describe(row, level) : hint;
  }

  function describe(row, level) {
    const [score, ends] = ["b", "small"].map((part) => row.querySelector(`.score ${part}`)?.textContent);
    const others = level.length === 1 ? nameOf(level[0]) : `${level.length || "no"} others`;
    return `${nameOf(row)}: ${score ? `${score} points` : "no score"}${ends ? ` (${ends})` : ""}, level with ${others} here.`;
  }

  const showKept = () => show(rows().find((row) => nameOf(row) === kept));

  function choose(event) {
    const row = event.target.closest(".board tbody tr");
    if (!row) return;
    event.preventDefault();
    kept = kept === nameOf(row) ? null : nameOf(row);
    showKept();
  }

  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const row = event.target.closest?.(".board tbody tr");
      if (row) show(row);
      else showKept();
    });
  }
  document.addEventListener("click", (event) => {
    if (!event.target.closest("a")) choose(event);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === " ") choose(event);
    if (event.key !== "Escape") return;
    kept = null;
    showKept();
  });
  document.addEventListener("htmx:after:swap", begin);

  function begin() {
    const [plot, copy] = [find("#plot"), find("#copy")];
    if (plot) plot.hidden = false;
    if (copy && navigator.clipboard) copy.hidden = false;
    shown = null;
    showKept();
  }

  document.addEventListener("click", async (event) => {
    if (event.target.id !== "copy") return;
    await navigator.clipboard.writeText(find("#permanent").href);
    event.target.textContent = "Copied";
  });
  begin();
})();
