// The slider goes through the snapshots of the list beside it; the list loads the leaderboard of then.
"use strict";

(() => {
  const [slider, list] = [document.getElementById("slider"), document.getElementById("at")];
  if (!slider) return;
  slider.hidden = false;
  const name = () => slider.setAttribute("aria-valuetext", list.selectedOptions[0].text);
  slider.addEventListener("input", () => {
    list.selectedIndex = Number(slider.value);
    name();
  });
  slider.addEventListener("change", () => list.dispatchEvent(new Event("change", { bubbles: true })));
  list.addEventListener("change", () => {
    slider.value = list.selectedIndex;
    name();
  });
  name();
})();
