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

  const LEVEL = "2"; // the digit of two models that cannot be told apart

  function show(row) {
    if (row === shown || !find("#plot")) return;
    shown = row;
    const differences = row?.dataset.differences;
    rows().forEach((other, place) => {
      const apart = differences && differences[place] !== LEVEL && other !== row;
      other.classList.toggle("apart", Boolean(apart));
      other.classList.toggle("chosen", Boolean(differences) && other === row);
    });
    find("#plot").textContent = differences ? describe(row) : hint;
  }

  function describe(row) {
    const ends = row.querySelector(".score small")?.textContent;
    return `${nameOf(row)}${ends ? ` (${ends})` : ""}: ${row.dataset.words}.`;
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
