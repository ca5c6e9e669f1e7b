// The form of imports: a file may be dropped on it, its beginning is shown, and how much of it has been sent.
"use strict";

(() => {
  const form = document.getElementById("upload");
  const drop = document.getElementById("drop");
  const file = document.getElementById("file");
  const sent = document.getElementById("sent");
  const problem = document.getElementById("upload-problem");
  if (!form) return;

  document.getElementById("drop-words").hidden = false;
  for (const kind of ["dragenter", "dragover"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    file.files = event.dataTransfer.files;
    preview();
  });

  // Of text that is not packed the beginning says enough; any other file is looked into as a whole, if it is small.
  const BEGINNING = 256 * 1024;
  const WHOLE = 4 * 1024 * 1024;

  let asked = 0; // previews: the answer to an earlier one comes too late
  let asking = false; // one at a time: the service starts a process for each

  async function preview() {
    asked += 1;
    if (asking) return;
    asking = true;
    try {
      let number;
      do {
        number = asked;
        await lookInto(number);
      } while (number !== asked);
    } finally {
      asking = false;
    }
  }

  async function lookInto(number) {
    const shown = document.getElementById("file-preview");
    const [chosen] = file.files;
    if (!chosen) return;
    const text = /\.(csv|tsv|jsonl)$/i.test(chosen.name);
    if (!text && chosen.size > WHOLE) {
      shown.textContent = "This file is too large to look into before it is sent. The option “Only check it” reads it.";
      return;
    }
    const data = new FormData(form);
    const cut = text && chosen.size > BEGINNING;
    data.set("file", cut ? chosen.slice(0, BEGINNING) : chosen, chosen.name);
    if (cut) data.set("cut", "yes");
    const answer = await fetch(`${form.action}/preview`, { method: "POST", body: data, headers: { "HX-Request": "true" } });
    const told = await answer.text();
    if (!answer.ok || number !== asked) return;
    const found = new DOMParser().parseFromString(told, "text/html").getElementById("file-preview");
    const focused = document.activeElement.id;
    shown.replaceChildren(...found.childNodes);
    if (focused) document.getElementById(focused)?.focus();
  }

  file.addEventListener("change", preview);
  form.addEventListener("change", (event) => event.target.matches("[data-column]") && preview());

  function refuse(words) {
    sent.hidden = true;
    problem.hidden = false;
    problem.textContent = words;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const request = new XMLHttpRequest();
    problem.hidden = true;
    sent.hidden = false;
    request.upload.addEventListener("progress", (progress) => {
      sent.value = progress.total ? progress.loaded / progress.total : 0;
    });
    request.addEventListener("load", () => {
      if (request.status < 400) location.assign(request.responseURL);
      else refuse(problemOf(request));
    });
    request.addEventListener("error", () => refuse("The connection was lost. Send the file again."));
    request.open("POST", form.action);
    request.responseType = "document";
    request.send(new FormData(form));
  });

  function problemOf(request) {
    const page = request.responseXML;
    const found = page && page.querySelector("#upload-problem:not([hidden]), .error .lead, .notice.bad");
    return found ? found.textContent.trim() : `The service answered ${request.status}.`;
  }
})();
