// The form of imports: a file may be dropped on it, and it shows how much of the file has been sent.
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
  });

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
