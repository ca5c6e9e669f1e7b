// The reader's choice of light or dark. It runs before anything is painted, so that nothing flashes; without it, and
// without a choice, the system's theme holds.
"use strict";

(() => {
  const stored = "stable-arena-theme";
  const root = document.documentElement;

  function apply(theme) {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
  }

  apply(localStorage.getItem(stored));
  addEventListener("storage", (event) => event.key === stored && apply(event.newValue));
  addEventListener("DOMContentLoaded", () => {
    const choice = document.getElementById("theme");
    choice.value = root.dataset.theme ?? "";
    choice.hidden = false;
    choice.addEventListener("change", () => {
      apply(choice.value);
      if (choice.value) localStorage.setItem(stored, choice.value);
      else localStorage.removeItem(stored);
    });
  });
})();
