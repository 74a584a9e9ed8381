"use strict";
// Switches of the picture. Without this script everything is shown, and a table says the same.
for (const box of document.querySelectorAll(".explorer")) {
  const switches = box.querySelector(".switches"), said = box.querySelector(".said"), empty = said.textContent;
  const marks = [...box.querySelectorAll("svg [data-class]")];
  const kinds = ["class", "site", "layer"];
  const read = (kind) => {
    const off = new Set();
    for (const one of box.querySelectorAll(`[data-${kind}-switch]`)) if (!one.checked) off.add(one.dataset[kind + "Switch"]);
    return off;
  };
  const draw = () => {
    const off = Object.fromEntries(kinds.map((kind) => [kind, read(kind)]));
    for (const one of marks) one.classList.toggle("off", kinds.some((kind) => kind in one.dataset && off[kind].has(one.dataset[kind])));
  };
  box.classList.add("live");
  switches.hidden = false;
  switches.addEventListener("change", draw);
  for (const button of box.querySelectorAll("[data-all]")) button.addEventListener("click", () => {
    for (const one of button.closest("fieldset").querySelectorAll("input")) one.checked = Boolean(button.dataset.all);
    draw();
  });
  // What the pointer or the keyboard is at stands out.
  const light = (kind, value) => {
    box.classList.toggle("dimmed", kind !== null);
    for (const one of marks) one.classList.toggle("lit", kind !== null && one.dataset[kind] === value);
  };
  for (const kind of ["class", "site"]) for (const one of box.querySelectorAll(`[data-${kind}-switch]`)) {
    const label = one.closest("label"), value = one.dataset[kind + "Switch"];
    for (const event of ["pointerenter", "focusin"]) label.addEventListener(event, () => light(kind, value));
    for (const event of ["pointerleave", "focusout"]) label.addEventListener(event, () => light(null));
  }
  box.querySelector("svg").addEventListener("pointerover", (event) => {
    const title = event.target.querySelector && event.target.querySelector("title");
    said.textContent = title ? title.textContent : empty;
  });
}
// On paper what is shown on demand is shown, but for what is drawn above it.
addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details:not(.twin)")) one.open = true; });
