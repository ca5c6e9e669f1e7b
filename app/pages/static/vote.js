/* The voting page: takes the token of a link from behind the #, and shows the visitor's own order after enough votes. */
(() => {
  "use strict";
  const battle = document.querySelector("stable-arena-battle");
  const mine = document.getElementById("mine");
  let needed = 0;
  const points = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

  function useLink() {
    const link = location.hash.match(/^#(sav_[\w-]{44})$/);
    if (!link) return;
    document.getElementById("door").hidden = true;
    battle.hidden = false;
    battle.setAttribute("token", link[1]);
  }

  async function showOrder() {
    const response = await fetch("/api/v1/annotators/me/order", { headers: { Authorization: `Bearer ${battle.getAttribute("token")}` } });
    if (!response.ok) return;
    const order = await response.json();
    needed = order.votes_needed;
    if (needed > 0) return;
    document.getElementById("mine-said").textContent =
      `${order.votes} votes; ${order.useful} of them count on the newest leaderboard. Few votes of one person leave wide intervals.`;
    mine.querySelector("tbody").replaceChildren(...order.models.map((one) => {
      const row = document.createElement("tr");
      const name = Object.assign(document.createElement("th"), { scope: "row", textContent: one.model });
      const cells = [one.votes, points.format(one.score), `${points.format(one.lower)} to ${points.format(one.upper)}`,
        one.board_rank ?? "–", one.board_score == null ? "–" : points.format(one.board_score)];
      row.append(name, ...cells.map((text) => Object.assign(document.createElement("td"), { className: "number", textContent: text })));
      return row;
    }));
    mine.hidden = false;
  }

  battle.addEventListener("shown", showOrder, { once: true });
  battle.addEventListener("revealed", () => {  // until then the order leaves the vote out
    needed -= 1;
    if (needed <= 0) showOrder();
  });
  addEventListener("hashchange", useLink);
  useLink();
})();
