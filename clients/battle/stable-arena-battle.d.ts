/** Shows a prompt and two answers of a Stable Arena, takes the verdict, and shows the next battle. */
export interface StableArenaBattleElement extends HTMLElement {
  addEventListener<Name extends keyof StableArenaBattleEvents>(
    name: Name,
    listener: (event: StableArenaBattleEvents[Name]) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(name: string, listener: EventListenerOrEventListenerObject, options?: boolean | AddEventListenerOptions): void;
}

export interface StableArenaBattleEvents {
  shown: CustomEvent<{ battle_id: string }>;
  voted: CustomEvent<{ battle_id: string; winner: "left" | "right" | "tie" | "bothbad" }>;
  /** Once the vote can no longer be taken back. */
  revealed: CustomEvent<{ battle_id: string; left: string; right: string }>;
  skipped: CustomEvent<{ battle_id: string }>;
  undone: CustomEvent<{ battle_id: string }>;
  finished: CustomEvent<{ code: "nothing-left" | "votes-used-up" }>;
  failed: CustomEvent<{ code: string; message: string }>;
}

declare global {
  interface HTMLElementTagNameMap {
    "stable-arena-battle": StableArenaBattleElement;
  }
}
