const element = (id) => document.getElementById(id);
const verdicts = [...document.querySelectorAll("[data-winner]")];
let token = null; // of the battle that is open

async function send(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body ?? {}),
  });
  const content = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error(typeof content.detail === "string" ? content.detail : "the request was refused");
  return content;
}

function show({ prompt, left, right }) {
  element("prompt").textContent = prompt;
  element("left").textContent = left;
  element("right").textContent = right;
  element("left-name").textContent = "Left";
  element("right-name").textContent = "Right";
}

function enable(voting) {
  for (const button of verdicts) button.disabled = !voting;
}

function allow(voting) {
  enable(voting);
  element("next").textContent = voting ? "Skip" : "Next battle";
}

async function nextBattle() {
  element("next").disabled = true;
  enable(false); // the battle that is being skipped takes no vote
  try {
    if (token) await send("/skip", { token });
    token = null;
    const battle = await send("/battle");
    token = battle.token;
    show(battle);
    allow(true);
    element("message").textContent = "";
  } catch (error) {
    element("message").textContent = `There is no battle: ${error.message}.`;
  } finally {
    enable(token !== null);
    element("next").disabled = false;
  }
}

async function vote(winner) {
  allow(false);
  try {
    const { left, right } = await send("/vote", { token, winner });
    element("left-name").textContent = `Left: ${left}`;
    element("right-name").textContent = `Right: ${right}`;
    element("message").textContent = `Thank you. You compared ${left} with ${right}.`;
  } catch (error) {
    element("message").textContent = `The vote was not counted: ${error.message}.`;
  }
  token = null;
}

for (const button of verdicts) button.addEventListener("click", () => vote(button.dataset.winner));
element("next").addEventListener("click", nextBattle);
nextBattle();
