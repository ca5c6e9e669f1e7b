// Asks for the newest leaderboard when the service says that there is one. A page that is not seen does not listen.
const REFUSED_MILLISECONDS = 30_000; // browsers connect again by themselves, but not after an error's answer
let source = null;

function listen() {
  if (document.hidden || source || !document.querySelector("#board[data-live]")) return;
  source = new EventSource("/events");
  source.addEventListener("snapshot", ({ data }) => {
    const board = document.querySelector("#board[data-live]");
    if (!board || Number(data) <= Number(board.dataset.snapshot)) return;
    if (board.dataset.snapshot === "0") location.reload(); // the first one: nothing of the page stays
    else htmx.trigger(board, "snapshot");
  });
  source.addEventListener("error", () => {
    if (source?.readyState !== EventSource.CLOSED) return;
    stopListening();
    setTimeout(listen, REFUSED_MILLISECONDS);
  });
}

function stopListening() {
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? stopListening() : listen()));
addEventListener("pagehide", stopListening);
addEventListener("pageshow", listen);
listen();
