// Keyboard shortcuts of the console, and choosing rows. The keys are off while something is typed, and can be switched
// off for good.
"use strict";

(() => {
  const stored = "stable-arena-keys";
  const help = document.getElementById("keys");
  const switched = document.getElementById("use-keys");
  const opener = document.getElementById("show-keys");
  if (!help || !switched || !opener) return;

  const inUse = () => localStorage.getItem(stored) !== "off";
  opener.hidden = false;
  opener.addEventListener("click", () => help.showModal());
  switched.checked = inUse();
  switched.addEventListener("change", () => localStorage.setItem(stored, switched.checked ? "on" : "off"));

  const rows = () => [...document.querySelectorAll("[data-row]")];

  function move(step) {
    const all = rows();
    const at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
    if (next) {
      next.focus();
      next.scrollIntoView({ block: "nearest" });
    }
    return Boolean(next);
  }

  function use(element) {
    if (element.matches("input[type=radio]")) {
      element.checked = true;
      element.form.querySelector("textarea").focus();
    } else if (element.matches("input")) {
      element.focus();
    } else {
      element.click();
    }
  }

  // Choosing rows, to decide on several at once. htmx replaces the list, so the document listens.
  const boxes = () => [...document.querySelectorAll("input[form=several]")];

  function tell() {
    const all = document.querySelector("[data-choose]");
    const told = document.querySelector("[data-chosen]");
    if (!all || !told) return;
    const chosen = boxes().filter((box) => box.checked).length;
    all.hidden = false;
    told.textContent = chosen ? `${chosen} chosen` : "";
  }

  function choose() {
    const box = document.activeElement.closest("tr")?.querySelector("input[form=several]");
    if (box) box.click();
    return Boolean(box);
  }

  document.addEventListener("change", (event) => event.target.matches("input[form=several]") && tell());
  document.addEventListener("click", (event) => {
    if (!event.target.matches("[data-choose]")) return;
    const every = boxes().every((box) => box.checked);
    for (const box of boxes()) box.checked = !every;
    tell();
  });
  document.addEventListener("htmx:after:swap", tell);
  tell();

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea[name=reason]")) {
      event.target.form.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || help.open || !inUse()) return;
    if (event.target.matches("textarea, select, input:not([type=radio], [type=checkbox])")) return;
    const marked = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    const done =
      event.key === "?" ? (help.showModal(), true)
      : event.key === "j" && move(1) ? true
      : event.key === "k" && move(-1) ? true
      : event.key === "o" && document.activeElement.matches("[data-row]") ? (document.activeElement.click(), true)
      : event.key === "x" && choose() ? true
      : marked ? (use(marked), true)
      : false;
    if (done) event.preventDefault();
  });
})();
