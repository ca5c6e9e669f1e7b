/* <stable-arena-battle service="https://arena.example" token="sav_…"></stable-arena-battle>

   Shows a prompt and two answers, takes the verdict, and shows the next battle. It says which models they were once
   the vote can no longer be taken back: after ten seconds, after the next verdict, or when one asks for it.
   token      of an invitation, or an ingest token that is bound to `annotator`
   annotator  with an ingest token: the key of the annotator
   service    where Stable Arena runs; by default where this file is from
   Events: shown, voted, revealed, skipped, undone, finished, failed; they bubble. Colours and sizes are CSS variables, below. */
(() => {
  "use strict";
  if (typeof HTMLElement === "undefined" || customElements.get("stable-arena-battle")) return;

  const ORIGIN = document.currentScript ? new URL(document.currentScript.src).origin : location.origin;
  const UNDO_SECONDS = 10;
  const TRIES = 6;
  const VOTED = "Your vote is cast.";
  const KEYS_OFF = "stable-arena-keys-off";
  const VERDICTS = [
    ["left", "1", "Left is better"], ["right", "2", "Right is better"], ["tie", "3", "Both are good"],
    ["bothbad", "4", "Both are bad"], ["skip", "S", "Skip"],
  ];
  const STYLE = `
    :host { --_accent: var(--stable-arena-accent, light-dark(#3a50bf, #a3b4ff));
      --_text: var(--stable-arena-text, light-dark(#1a1e24, #e7eaee));
      --_muted: var(--stable-arena-muted, light-dark(#565f6b, #a6afbb));
      --_surface: var(--stable-arena-surface, light-dark(#ffffff, #1b1f26));
      --_raised: var(--stable-arena-raised, light-dark(#f1f2f4, #242a33));
      --_line: var(--stable-arena-line, light-dark(#868f9b, #7c8694));
      --_height: var(--stable-arena-height, 55vh);
      display: block; color: var(--_text); font: var(--stable-arena-font, 1rem/1.5 system-ui, sans-serif); }
    :host([hidden]) { display: none; }
    * { box-sizing: border-box; }
    h2 { font-size: 1rem; margin: 0 0 .4rem; }
    .prompt, .answer { background: var(--_surface); border: 1px solid var(--_line); border-radius: .5rem; padding: .8rem 1rem; }
    .prompt { margin-bottom: 1rem; background: var(--_raised); }
    .prompt .text { max-height: 30vh; overflow: auto; }
    .answers { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
    .answer { min-width: 0; }
    .answer .text { max-height: var(--_height); overflow: auto; }
    .text { overflow-wrap: anywhere; }
    .text > :first-child { margin-top: 0; }
    .text > :last-child { margin-bottom: 0; }
    .text a { color: var(--_accent); }
    .text pre { overflow: auto; padding: .6rem; background: var(--_raised); border-radius: .3rem; font-size: .875rem; overflow-wrap: normal; }
    .prompt .text pre { background: var(--_surface); }
    .text table { display: block; overflow: auto; border-collapse: collapse; }
    .text th, .text td { border: 1px solid var(--_line); padding: .2rem .5rem; text-align: start; }
    .text blockquote { margin-inline: 0; padding-inline-start: .8rem; border-inline-start: 3px solid var(--_line); }
    .math.block { overflow: auto; }
    .k, .kd, .kn, .kr, .ow { color: light-dark(#7a1f8f, #d9a3ff); }
    .s, .s1, .s2, .sd, .se, .sb { color: light-dark(#17693d, #7ed3a2); }
    .c, .c1, .cm, .ch { color: var(--_muted); font-style: italic; }
    .nf, .nc, .nt, .na { color: light-dark(#1f4f9e, #9cc4ff); }
    .m, .mi, .mf, .mh { color: light-dark(#8a4500, #eec06f); }
    .verdicts { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1rem 0 .5rem; }
    button { font: inherit; color: inherit; background: var(--_surface); border: 1px solid var(--_line); border-radius: .4rem;
      padding: .55rem .9rem; min-height: 2.75rem; cursor: pointer; }
    button:hover { border-color: var(--_accent); }
    button:focus-visible, [tabindex]:focus-visible, input:focus-visible { outline: 3px solid var(--_accent); outline-offset: 2px; }
    button[aria-disabled=true] { opacity: .75; cursor: progress; }
    kbd { font: inherit; font-size: .8rem; color: var(--_muted); border: 1px solid var(--_line); border-radius: .2rem; padding: 0 .35em; margin-inline-start: .4em; }
    .said { min-height: 2.75rem; margin-bottom: .5rem; display: flex; flex-wrap: wrap; gap: .2rem 1rem; align-items: center; }
    .said p { margin: 0; }
    .small { font-size: .875rem; color: var(--_muted); margin: .3rem 0; }
    [hidden] { display: none !important; }
    @media (max-width: 45rem) {
      .answers { grid-template-columns: 1fr; }
      .answer .text, .prompt .text { max-height: none; }
      .verdicts { position: sticky; bottom: 0; padding: .4rem 0; background: var(--_surface); gap: .35rem; }
      .verdicts button { flex: 1 1 30%; padding: .45rem; }
      kbd, p:has(.keys) { display: none; }
    }`;
  const PAGE = `
    <div class="said"><p role="status" tabindex="-1"></p><button type="button" class="undo" hidden>Undo</button><button type="button" class="reveal" hidden>Show the models</button><button type="button" class="again" hidden>Try again</button></div>
    <div class="battle" hidden>
      <section class="prompt" part="prompt" aria-labelledby="p"><h2 id="p">Prompt</h2><div class="text" tabindex="0" role="region" aria-labelledby="p"></div></section>
      <div class="answers">
        <section class="answer" part="answer" aria-labelledby="l"><h2 id="l">Left</h2><div class="text" tabindex="0" role="region" aria-labelledby="l"></div></section>
        <section class="answer" part="answer" aria-labelledby="r"><h2 id="r">Right</h2><div class="text" tabindex="0" role="region" aria-labelledby="r"></div></section>
      </div>
      <div class="verdicts" part="verdicts" role="group" aria-label="Your verdict"></div>
    </div>
    <p class="small"><label><input type="checkbox" class="keys" checked> Use the keys 1, 2, 3, 4 and S; the arrows scroll both answers</label></p>
    <p class="small stored">Stored are your verdicts with their times, under the key of your link or the random id of your visit; nothing else about you.</p>`;

  const wait = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
  const keysAreOff = () => { try { return localStorage.getItem(KEYS_OFF) === "1"; } catch { return false; } };

  class Refusal extends Error {
    constructor(status, problem) {
      super(problem.detail || problem.title || `the service answered ${status}`);
      this.status = status;
      this.code = (problem.type || "").replace("/problems/", "");
    }
  }

  class StableArenaBattle extends HTMLElement {
    static observedAttributes = ["token"];
    #battle = null;
    #next = null;
    #busy = false;
    #undo = null;
    #drawing = 0;

    constructor() {
      super();
      const root = this.attachShadow({ mode: "open" });
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(STYLE);
      root.adoptedStyleSheets = [sheet];
      root.innerHTML = PAGE;
      const group = root.querySelector(".verdicts");
      for (const [verdict, key, words] of VERDICTS) {
        const button = document.createElement("button");
        button.type = "button";
        button.append(words, Object.assign(document.createElement("kbd"), { textContent: key, ariaHidden: "true" }));
        button.addEventListener("click", () => this.#decide(verdict));
        group.append(button);
      }
      root.querySelector(".undo").addEventListener("click", () => this.#takeBack());
      root.querySelector(".reveal").addEventListener("click", () => this.#reveal());
      root.querySelector(".again").addEventListener("click", () => { if (!this.#busy) this.#show(); });
      const keys = root.querySelector(".keys");
      keys.checked = !keysAreOff();
      keys.addEventListener("change", () => { try { localStorage.setItem(KEYS_OFF, keys.checked ? "0" : "1"); } catch { /* for this page alone */ } });
      const [left, right] = this.#panes();
      for (const [one, other] of [[left, right], [right, left]]) one.addEventListener("scroll", () => this.#scroll(one, other));
    }

    connectedCallback() {
      addEventListener("keydown", this.#press);
      if (this.getAttribute("token") && !this.#battle) this.#start();
    }

    disconnectedCallback() { removeEventListener("keydown", this.#press); }

    attributeChangedCallback(_name, before, now) {
      if (this.isConnected && now && before !== now) this.#start();
    }

    #panes() { return [...this.shadowRoot.querySelectorAll(".answer .text")]; }

    async #start() {
      this.#battle = this.#next = null;
      await this.#show();
    }

    /* Long answers scroll together, each to the same share of its length. */
    #led = null;
    #scroll(one, other) {
      if (this.#led === one) { this.#led = null; return; }
      const [way, otherWay] = [one, other].map((pane) => pane.scrollHeight - pane.clientHeight);
      const place = Math.round(way > 0 ? one.scrollTop / way * otherWay : 0);
      if (otherWay > 0 && Math.abs(other.scrollTop - place) > 1) { this.#led = other; other.scrollTop = place; }
    }

    #press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.#battle || !this.shadowRoot.querySelector(".keys").checked) return;
      const target = event.composedPath()[0];
      if (target instanceof Element && target.closest("input, textarea, select, [contenteditable]") && target.type !== "checkbox") return;
      const verdict = VERDICTS.find(([, key]) => key.toLowerCase() === event.key.toLowerCase());
      if (verdict && !event.repeat) {
        event.preventDefault();
        this.#decide(verdict[0]);
        return;
      }
      const step = { ArrowDown: 60, ArrowUp: -60 }[event.key];
      if (target instanceof Element && target.closest(".prompt")) return;  // a long prompt scrolls by itself
      const [left, right] = this.#panes();
      const longer = left.scrollHeight >= right.scrollHeight ? left : right;
      if (step && longer.scrollHeight > longer.clientHeight) {
        event.preventDefault();
        longer.scrollTop += step;
      }
    };

    /* Send until there is an answer: a battle's vote counts once, however often it is sent. */
    async #ask(path, body, headers = {}) {
      const service = this.getAttribute("service") || ORIGIN;
      for (let attempt = 1; ; attempt++) {
        let pause = Math.min(2 ** attempt / 2, 15);
        try {
          const response = await fetch(`${service}/api/v1${path}`, {
            method: "POST", body: JSON.stringify(body), credentials: "omit",
            headers: { "Content-Type": "application/json", ...headers },
          });
          if (response.ok) return await response.json();
          const problem = await response.json().catch(() => ({}));
          if (response.status !== 429 && response.status < 500 || attempt === TRIES) throw new Refusal(response.status, problem);
          pause = Number(response.headers.get("Retry-After")) || pause;
        } catch (error) {
          if (error instanceof Refusal || attempt === TRIES) throw error;
        }
        if (this.#busy || path !== "/battles") this.#say("The service does not answer. Trying again …");  // not of a battle drawn ahead
        await wait(Math.min(pause, 30));
      }
    }

    #draw() {
      const annotator = this.getAttribute("annotator");
      return this.#ask("/battles", annotator ? { annotator } : {}, { Authorization: `Bearer ${this.getAttribute("token")}` });
    }

    async #show(said = "") {
      const mine = ++this.#drawing;
      this.#busy = true;
      this.#mark();
      try {
        const next = await (this.#next ? this.#next.catch(() => this.#draw()) : this.#draw());
        const battle = Date.parse(next.expires_at) < Date.now() + 60000 ? await this.#draw() : next;
        if (mine !== this.#drawing) return;
        this.#battle = battle;
        this.#next = null;
        this.#fill(battle);
        this.#offerAgain(false);
        if (said && this.getBoundingClientRect().top < 0) this.scrollIntoView();
        this.#say(said);
        this.#emit("shown", { battle_id: battle.battle_id });
        if (battle.votes_left === undefined || battle.votes_left > 1) {
          this.#next = this.#draw();  // while the person reads
          this.#next.catch(() => {});  // it is drawn anew when it is wanted
        }
      } catch (error) {
        if (mine === this.#drawing) this.#stop(error, said);
      } finally {
        if (mine === this.#drawing) { this.#busy = false; this.#mark(); }
      }
    }

    #fill(battle) {
      const root = this.shadowRoot;
      const [left, right] = this.#panes();
      for (const [pane, html] of [[root.querySelector(".prompt .text"), battle.prompt], [left, battle.left_answer], [right, battle.right_answer]]) {
        pane.innerHTML = html || "<p><em>(nothing)</em></p>";  // sanitised by the service
        pane.scrollTop = 0;
      }
      root.querySelector(".battle").hidden = false;
      for (const part of root.querySelectorAll(".text :is(pre, table, .math.block)")) {
        if (part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight) part.tabIndex = 0;  // the arrows move what scrolls by itself
      }
    }

    #stop(error, said) {
      this.#battle = this.#next = null;
      const battle = this.shadowRoot.querySelector(".battle");
      const held = battle.contains(this.shadowRoot.activeElement);
      battle.hidden = true;
      const finished = { "nothing-left": "You have seen everything there is. Thank you!", "votes-used-up": "All your votes are cast. Thank you!" }[error.code];
      this.#say([said, finished || `There is no battle to show: ${error.message}.`].filter(Boolean).join(" "));
      this.#offerAgain(!finished);
      if (held) this.shadowRoot.querySelector(finished ? "[role=status]" : ".again").focus();
      if (finished) this.#emit("finished", { code: error.code });
      else this.#emit("failed", { code: error.code || "network", message: error.message });
    }

    #offerAgain(failed) {
      const again = this.shadowRoot.querySelector(".again");
      if (!failed && this.shadowRoot.activeElement === again) {
        this.shadowRoot.querySelector(this.#battle ? ".verdicts button" : "[role=status]").focus();
      }
      again.hidden = !failed;
    }

    async #decide(verdict) {
      const battle = this.#battle;
      if (this.#busy || !battle) return;
      this.#busy = true;
      this.#mark();
      const before = this.#settle();
      const skipped = verdict === "skip";
      let said = "Skipped.";
      try {
        const answer = skipped
          ? await this.#ask(`/battles/${battle.battle_id}/skip`, { reason: "skip", token: battle.token })
          : await this.#ask("/votes", { token: battle.token, winner: verdict, reveal: false });
        if (battle !== this.#battle) return;  // another token has begun
        if (skipped) this.#emit("skipped", { battle_id: battle.battle_id });
        else {
          said = VOTED;
          this.#offerUndo(battle, verdict);
          this.#emit("voted", { battle_id: battle.battle_id, winner: verdict });
        }
      } catch (error) {
        if (battle !== this.#battle) return;
        if (!(error instanceof Refusal) || error.status === 429 || error.status >= 500) {
          this.#busy = false;  // the battle stays, to be sent again
          this.#mark();
          const names = await before;
          this.#say(`Not sent: ${error.message}. Please try again.${names ? ` The battle before: ${names}` : ""}`);
          this.#emit("failed", { code: error.code || "network", message: error.message });
          return;
        }
        said = `Not counted: ${error.message}.`;
        this.#emit("failed", { code: error.code, message: error.message });
      }
      const names = await before;
      await this.#show(names ? `${said} The battle before: ${names}` : said);
    }

    #choices() { return [...this.shadowRoot.querySelectorAll(".undo, .reveal")]; }

    #offerUndo(battle, winner) {
      for (const button of this.#choices()) button.hidden = false;
      this.#undo = { battle, winner, timer: setTimeout(() => this.#reveal(), UNDO_SECONDS * 1000) };
    }

    #forget() {
      if (this.#undo) clearTimeout(this.#undo.timer);
      this.#undo = null;
      for (const button of this.#choices()) {
        if (this.shadowRoot.activeElement === button) this.shadowRoot.querySelector(".verdicts button").focus();
        button.hidden = true;
      }
    }

    /* Let the last vote stand, and return which models it was on: the same vote again names them. */
    async #settle() {
      if (!this.#undo) return "";
      const { battle, winner } = this.#undo;
      this.#forget();
      try {
        const { left, right } = await this.#ask("/votes", { token: battle.token, winner });
        this.#emit("revealed", { battle_id: battle.battle_id, left, right });
        return `Left was ${left}, right was ${right}.`;
      } catch {
        return "";  // the vote is cast
      }
    }

    async #reveal() {
      const status = this.shadowRoot.querySelector("[role=status]"), said = status.textContent;
      const names = await this.#settle();
      if (names) this.#say(status.textContent.includes(VOTED) ? status.textContent.replace(VOTED, names) : names);
      else if (status.textContent.startsWith("The service does not answer")) this.#say(said);
    }

    async #takeBack() {
      if (!this.#undo) return;  // its time ended with the click
      const { battle } = this.#undo;
      this.#forget();
      try {
        await this.#ask(`/battles/${battle.battle_id}/undo`, { token: battle.token });
        this.#say(battle.votes_left === undefined ? "Your vote was taken back." : "Your vote was taken back. It still is one of your number of votes.");
        this.#emit("undone", { battle_id: battle.battle_id });
      } catch (error) {
        this.#say(`Not taken back: ${error.message}.`);
        this.#emit("failed", { code: error.code || "network", message: error.message });
      }
    }

    #mark() {
      for (const button of this.shadowRoot.querySelectorAll(".verdicts button")) button.setAttribute("aria-disabled", this.#busy);
    }

    #say(text) { this.shadowRoot.querySelector("[role=status]").textContent = text; }

    #emit(name, detail) { this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true })); }
  }

  customElements.define("stable-arena-battle", StableArenaBattle);
})();
