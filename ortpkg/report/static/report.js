"use strict";

/* What the page does without its graph views: the button for colours, and printing with everything open. */

/** Turns light colours dark and back; what the reader's system asks for comes first. */
function setUpThemeButton() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light colours" : "Dark colours"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  button.hidden = false;
  name();
}

/** Opens every table for the time of printing, since paper has nothing to click on. */
function setUpPrinting() {
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((each) => { each.open = true; });
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((each) => { each.open = false; });
    opened = [];
  });
}

setUpThemeButton();
setUpPrinting();
