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
    if (kind === null) return search();
    box.classList.add("dimmed");
    for (const one of marks) one.classList.toggle("lit", one.dataset[kind] === value);
  };
  // What is looked for is what has the words in its title, or in its class's or site's name.
  const find = box.querySelector("[data-find]"), called = {};
  for (const one of box.querySelectorAll("[data-class-switch]")) called[one.dataset.classSwitch] = one.closest("label").textContent;
  const texts = marks.map((one) => [one.querySelector("title")?.textContent, called[one.dataset.class], one.dataset.site].join("\n").toLowerCase());
  const search = () => {
    const words = find.value.trim().toLowerCase();
    box.classList.toggle("dimmed", words !== "");
    marks.forEach((one, at) => one.classList.toggle("lit", words !== "" && texts[at].includes(words)));
  };
  find.addEventListener("input", () => {
    search();
    const count = marks.filter((one) => one.dataset.layer !== "areas" && !one.classList.contains("number") && one.classList.contains("lit")).length;
    said.textContent = find.value.trim() ? `${count} shapes have “${find.value.trim()}”` : empty;
  });
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
// A disc is moved by isometries z -> (a z + b) / (conj(b) z + conj(a)), and all that is drawn in it goes along.
const times = ([a, b], [c, d]) => [a * c - b * d, a * d + b * c], conj = ([a, b]) => [a, -b], plus = ([a, b], [c, d]) => [a + c, b + d];
const over = (z, [c, d]) => { const n = c * c + d * d; return [(z[0] * c + z[1] * d) / n, (z[1] * c - z[0] * d) / n]; };
for (const svg of document.querySelectorAll(".explorer svg[data-moves]")) {
  const box = svg.closest(".explorer"), said = box.querySelector(".said"), HALF = 500, whole = svg.getAttribute("viewBox");
  const read = (x, y) => [x / HALF - 1, 1 - y / HALF], write = ([x, y]) => `${(HALF * (1 + x)).toFixed(1)} ${(HALF * (1 - y)).toFixed(1)}`;
  const inside = (z) => { const r = Math.hypot(...z); return r < 0.99999 ? z : [z[0] / r * 0.99999, z[1] / r * 0.99999]; };
  const items = [...svg.querySelectorAll("path[data-class]")].map((path) => {
    const spots = path.dataset.spots ? path.dataset.spots.split(" ").map((one) => one.split(",").map(Number)) : null, d = path.getAttribute("d");
    const round = path.dataset.rows ? d.slice(d.indexOf("a")) : "", radius = round ? Number(/^a([\d.]+)/.exec(round)[1]) : 0;
    const steps = spots ? [] : [...d.matchAll(/([ML])(-?[\d.]+) (-?[\d.]+)|[zh][\d.]*/g)].map((m) => m[1] ? [m[1], inside(read(m[2], m[3]))] : [m[0]]);
    return { path, d, spots, steps, round, radius };
  });
  const numbers = [...svg.querySelectorAll(".number")].map((one) => { const c = one.querySelector("circle"); return { one, x: +c.getAttribute("cx"), y: +c.getAttribute("cy") }; });
  let T = [[1, 0], [0, 0]], asked = false;
  const at = (z) => over(plus(times(T[0], z), T[1]), plus(times(conj(T[1]), z), conj(T[0])));
  const then = (M) => { T = [plus(times(M[0], T[0]), times(M[1], conj(T[1]))), plus(times(M[0], T[1]), times(M[1], conj(T[0])))]; };
  const to = (c) => { const k = 1 / Math.sqrt(1 - c[0] * c[0] - c[1] * c[1]); return [[k, 0], [k * c[0], k * c[1]]]; };
  const paint = () => {
    asked = false;
    svg.classList.toggle("moved", Math.hypot(...T[1]) > 1e-9);
    for (const { path, spots, steps, round, radius } of items) {
      if (round) { const [x, y] = write(at(spots[0])).split(" ").map(Number); path.setAttribute("d", `M${x - radius} ${y}${round}`); }
      else path.setAttribute("d", spots ? spots.map((z) => `M${write(at(z))}h0`).join("") : steps.map(([word, z]) => z ? word + write(at(z)) : word).join(""));
    }
    for (const { one, x, y } of numbers) { const [u, v] = write(at(inside(read(x, y)))).split(" ").map(Number); one.setAttribute("transform", `translate(${u - x} ${v - y})`); }
  };
  const draw = () => { if (!asked) { asked = true; requestAnimationFrame(paint); } };
  const place = (event) => { const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()); return read(p.x, p.y); };
  const near = (z) => Math.hypot(...z) < 0.98;
  let held = null;
  svg.addEventListener("pointerdown", (event) => { const z = place(event); if (near(z)) { held = z; svg.setPointerCapture(event.pointerId); } });
  svg.addEventListener("pointermove", (event) => {
    if (held === null) return;
    const z = place(event);
    if (!near(z)) return;
    then(to([-held[0], -held[1]])); then(to(z)); held = z; draw();
  });
  for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, () => { held = null; });
  svg.addEventListener("dblclick", (event) => { const z = place(event); if (near(z)) { then(to([-z[0], -z[1]])); draw(); } });
  const zoom = (factor, z = [0, 0]) => {
    const [x, y, w, h] = svg.getAttribute("viewBox").split(" ").map(Number), [u, v] = write(z).split(" ").map(Number), size = Math.min(Math.max(w * factor, 40), 1008) / w;
    svg.setAttribute("viewBox", `${u + (x - u) * size} ${v + (y - v) * size} ${w * size} ${h * size}`);
  };
  svg.addEventListener("wheel", (event) => { if (event.ctrlKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, place(event)); } }, { passive: false });
  const picture = () => {
    const copy = svg.cloneNode(true), marks = svg.querySelectorAll("*");
    copy.querySelectorAll("*").forEach((one, index) => {
      const style = getComputedStyle(marks[index]);
      for (const name of ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-linecap", "opacity", "display", "font-size", "text-anchor", "dominant-baseline"]) one.style.setProperty(name, style.getPropertyValue(name));
    });
    copy.setAttribute("width", 1400); copy.setAttribute("height", 1400);
    return "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
  };
  const save = (address, name) => { const link = document.createElement("a"); link.href = address; link.download = name; link.click(); };
  const tasks = {
    in: () => zoom(1 / 1.5), out: () => zoom(1.5), back: () => { T = [[1, 0], [0, 0]]; svg.setAttribute("viewBox", whole); draw(); },
    svg: () => save(picture(), "map.svg"),
    png: () => { const image = new Image(); image.onload = () => { const sheet = document.createElement("canvas"); sheet.width = sheet.height = 1400; sheet.getContext("2d").drawImage(image, 0, 0); save(sheet.toDataURL("image/png"), "map.png"); }; image.src = picture(); },
  };
  for (const button of box.querySelectorAll("[data-view]")) button.addEventListener("click", tasks[button.dataset.view]);
  const colour = box.querySelector("[data-colour]"), sites = [...new Set(items.map(({ path }) => path.dataset.site).filter(Boolean))];
  const far = (z) => 2 * Math.atanh(Math.min(Math.hypot(...z), 0.9999999)), marked = items.filter(({ round }) => round);
  const most = Math.max(1, ...marked.map(({ path }) => Math.log(path.dataset.rows))), farthest = Math.max(...marked.map(({ spots }) => far(spots[0])));
  const sizes = marked.map(({ path }) => Number(path.dataset.rows)), tint_of = (site) => `hsl(${sites.indexOf(site) * 137 % 360} 65% 45%)`;
  const painted = (one, tint) => tint === null ? one.style.removeProperty("--c") : one.style.setProperty("--c", tint);
  if (colour) colour.addEventListener("change", () => {
    const { shares, range } = colour.selectedOptions[0].dataset, each = shares ? shares.split(" ") : [], by = colour.value;
    said.textContent = {
      site: "Rows by site; landmarks are of all sites.",
      rows: `Landmarks: the darker, the more rows, from ${Math.min(...sizes)} to ${Math.max(...sizes)}.`,
      distance: `Landmarks: the darker, the farther from the centre of the first view, up to ${farthest.toFixed(1)}.`,
      column: `Landmarks: the darker, the higher the mean, from ${range}, as the rows were prepared.`,
    }[by] || "Point at a shape to read what it is.";
    for (const { path, spots, round } of items) {
      if (path.classList.contains("region")) continue;
      const at = marked.findIndex((one) => one.path === path);
      const share = at < 0 ? 0 : by === "column" ? each[at] / 100 : by === "rows" ? Math.log(path.dataset.rows) / most : far(spots[0]) / farthest;
      painted(path, by === "class" ? null : by === "site" ? (round ? "#8a93a0" : tint_of(path.dataset.site)) : round ? `hsl(215 70% ${88 - 66 * share}%)` : "#b8bec7");
    }
    for (const one of box.querySelectorAll(".of-site")) painted(one, by === "site" ? tint_of(one.closest("label").querySelector("input").dataset.siteSwitch) : null);
  });
}
// On paper what is shown on demand is shown, but for what is drawn above it.
addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details:not(.twin)")) one.open = true; });
