"use strict";
// Tabs: without this script all models are shown one below the other.
(() => {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const show = (chosen) => tabs.forEach((tab, k) => {
    tab.setAttribute("aria-selected", String(k === chosen));
    tab.tabIndex = k === chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = k !== chosen;
  });
  tabs.forEach((tab, k) => {
    tab.addEventListener("click", () => show(k));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (k + step + tabs.length) % tabs.length;
      show(next);
      tabs[next].focus();
    });
  });
  if (tabs.length) show(0);
})();

// Values of points under the pointer or in focus.
(() => {
  const tip = document.getElementById("tip");
  const show = (event) => {
    const text = event.target.dataset && event.target.dataset.tip;
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const dot = event.target.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const left = dot.left + dot.width / 2 - box.width / 2;
    tip.style.left = Math.max(4, Math.min(left, window.innerWidth - box.width - 4)) + "px";
    tip.style.top = (dot.top > box.height + 8 ? dot.top - box.height - 6 : dot.bottom + 6) + "px";
  };
  document.addEventListener("pointerover", show);
  document.addEventListener("focusin", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);
})();

// Pictures of the iterations.
document.querySelectorAll(".stepper").forEach((stepper) => {
  const find = (selector) => stepper.querySelector(selector);
  const pictures = JSON.parse(find(".pictures").textContent);
  const stage = find(".stage"), slider = find("input"), play = find(".play");
  const svg = "http://www.w3.org/2000/svg";
  let now = 0, timer = null;

  const add = (name, kind, attributes) => {
    const element = document.createElementNS(svg, name);
    element.setAttribute("class", kind);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const show = (number) => {
    now = Math.max(0, Math.min(pictures.length - 1, number));
    const picture = pictures[now];
    stage.replaceChildren(
      ...picture.circles.map(([cx, cy, r, kind]) => add("circle", "k" + kind, { cx, cy, r })),
      ...picture.lines.map(([x1, y1, x2, y2, margin]) =>
        add("path", margin ? "margin" : "hyperplane", { d: `M${x1} ${y1}L${x2} ${y2}` })),
    );
    find(".caption").textContent = picture.caption;
    slider.value = now;
    find(".previous").disabled = now === 0;
    find(".next").disabled = now === pictures.length - 1;
  };
  const pause = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  const go = (number) => { pause(); show(number); };

  find(".previous").addEventListener("click", () => go(now - 1));
  find(".next").addEventListener("click", () => go(now + 1));
  slider.addEventListener("input", () => go(Number(slider.value)));
  play.addEventListener("click", () => {
    if (timer !== null) { pause(); return; }
    play.textContent = "Pause";
    if (now === pictures.length - 1) show(0);
    timer = setInterval(() => {
      show(now + 1);
      if (now === pictures.length - 1) pause();
    }, 900);
  });
  stepper.addEventListener("keydown", (event) => {
    const target = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: pictures.length - 1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    go(target);
  });
  show(0);
});
