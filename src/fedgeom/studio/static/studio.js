"use strict";
const SILENT = "The studio does not answer; is it still running in its terminal?";
// Tables that are dropped or chosen are sent to the studio on this machine, one after another.
const drop = document.getElementById("drop");
if (drop) {
  const said = document.getElementById("drop-said"), chosen = document.getElementById("chosen");
  const keep = async (files) => {
    const kept = [];
    for (const file of files) {
      said.textContent = `copying ${file.name} …`;
      let answer, text;
      try {
        answer = await fetch(drop.dataset.to + encodeURIComponent(file.name), { method: "POST", body: file });
        text = await answer.text();
      } catch {
        said.textContent = SILENT;
        return;
      }
      if (!answer.ok) {
        const page = new DOMParser().parseFromString(text, "text/html").querySelector("[role=alert]");
        said.textContent = page ? page.textContent : text;
        return;
      }
      kept.push(text);
    }
    if (kept.length) said.textContent = "looking into it …";
    if (!kept.length) return;
    const names = kept.map((one) => one.split("?")[1]);
    location.href = drop.dataset.then ? drop.dataset.then + names[0].split("=")[1] : kept[0].split("?")[0] + "?" + names.join("&");
  };
  chosen.addEventListener("change", () => keep(chosen.files));
  for (const event of ["dragover", "dragleave", "drop"]) drop.addEventListener(event, (e) => {
    e.preventDefault();
    drop.classList.toggle("over", event === "dragover");
    if (event === "drop") keep(e.dataTransfer.files);
  });
}
// Another run has models of other sites.
const chooser = document.querySelector("[data-reload]");
if (chooser) chooser.addEventListener("change", () => { location.href = chooser.dataset.reload + encodeURIComponent(chooser.value); });
// A run that goes on is followed; in the end the page is loaded anew.
const live = document.querySelector("[data-live]");
if (live) {
  const source = new EventSource(live.dataset.live), silent = document.createElement("p");
  silent.setAttribute("role", "status");
  live.after(silent);
  source.addEventListener("progress", (event) => {
    const shown = live.querySelector("details")?.open;
    live.innerHTML = event.data;
    if (shown) live.querySelector("details").open = true;
    silent.textContent = "";
  });
  source.addEventListener("error", () => { silent.textContent = SILENT; });  // the browser tries again by itself
  source.addEventListener("ended", () => { source.close(); location.reload(); });
}
// What takes a while says so, and is not asked for twice; who comes back to the page may ask again.
for (const form of document.querySelectorAll("form[method=post]")) form.addEventListener("submit", (event) => {
  const button = form.querySelector("button");
  if (button.classList.contains("busy")) event.preventDefault();
  button.classList.add("busy");
});
addEventListener("pageshow", () => { for (const one of document.querySelectorAll(".busy")) one.classList.remove("busy"); });
