"use strict";

/* Matrices of verdicts: the reason of a cell beside it, and arrow keys from cell to cell. */

/** The one note of the page that shows reasons; screen readers are told what it says. */
class VerdictNote {
  constructor() {
    this.element = document.createElement("div");
    this.element.className = "verdict-note";
    this.element.setAttribute("role", "status");
    document.body.append(this.element);
    this.button = null;
    this.leaving = 0;
    this.element.addEventListener("pointerenter", () => clearTimeout(this.leaving));
    this.element.addEventListener("pointerleave", () => this.hideSoon());
  }

  /** Says why the cell of that button is as it is. */
  show(button) {
    clearTimeout(this.leaving);
    if (this.button === button) return;
    this.button = button;
    const [heading, reason, code] = ["strong", "div", "span"].map((tag) => document.createElement(tag));
    heading.textContent = placeOf(button);
    reason.textContent = button.dataset.reason;
    code.textContent = button.textContent;
    this.element.replaceChildren(heading, reason, code);
    this.follow();
  }

  /** Below the cell where there is room, else above it; never beyond the window's edges. */
  moveTo(cell) {
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const left = Math.max(8, Math.min(cell.left, window.innerWidth - width - 8));
    const isBelow = cell.bottom + height + 12 < window.innerHeight || cell.top < height + 12;
    this.element.style.left = `${left}px`;
    this.element.style.top = `${isBelow ? cell.bottom + 6 : cell.top - height - 6}px`;
  }

  /** Stays at its cell while that is in sight. */
  follow() {
    if (!this.button) return;
    const cell = this.button.getBoundingClientRect();
    const isAway = cell.bottom < 0 || cell.top > window.innerHeight;
    this.element.classList.toggle("away", isAway);
    if (!isAway) this.moveTo(cell);
  }

  /** Leaves time to reach the note with the pointer. */
  hideSoon() {
    clearTimeout(this.leaving);
    this.leaving = setTimeout(() => this.hide(), 200);
  }

  hide() {
    clearTimeout(this.leaving);
    this.button = null;
    this.element.replaceChildren();
  }
}

/** "variant, on which EP device or machine", as the heads of row and column say it. */
function placeOf(button) {
  const cell = button.closest("td");
  const head = cell.closest("table").tHead.rows[0].cells[cell.cellIndex];
  const variant = cell.parentElement.cells[0].textContent.trim();
  return `${variant} · ${head.firstElementChild.dataset.label}`;
}

/** Moves the focus by arrow keys, Home and End; one cell of a matrix is a stop of the Tab key. */
function setUpKeys(matrix) {
  const rows = [...matrix.tBodies[0].rows].map((row) => [...row.querySelectorAll("button")]);
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  rows.flat().forEach((button) => { button.tabIndex = -1; });
  rows[0][0].tabIndex = 0;
  matrix.setAttribute("role", "grid");
  matrix.addEventListener("focusin", (event) => {
    rows.flat().forEach((button) => { button.tabIndex = button === event.target ? 0 : -1; });
  });
  matrix.addEventListener("keydown", (event) => {
    const y = rows.findIndex((row) => row.includes(event.target));
    if (y < 0) return;
    const x = rows[y].indexOf(event.target);
    const ends = { Home: [y, 0], End: [y, rows[y].length - 1] };
    const step = steps[event.key];
    const [toY, toX] = step ? [y + step[0], x + step[1]] : ends[event.key] || [-1, -1];
    const next = rows[toY] && rows[toY][toX];
    if (!step && !ends[event.key]) return;
    event.preventDefault();
    if (next) next.focus();
  });
}

function setUpMatrix(matrix, note) {
  // What stood in titles for readers without scripts is shown by the note, not twice.
  matrix.querySelectorAll("[title]").forEach((each) => {
    each.dataset[each.matches("button") ? "reason" : "label"] = each.title;
    each.removeAttribute("title");
  });
  setUpKeys(matrix);
  const buttonOf = (event) => event.target.closest("button");
  matrix.addEventListener("pointerover", (event) => {
    if (buttonOf(event)) note.show(buttonOf(event));
  });
  matrix.addEventListener("pointerout", () => note.hideSoon());
  matrix.addEventListener("focusin", (event) => { if (buttonOf(event)) note.show(buttonOf(event)); });
  matrix.addEventListener("focusout", () => note.hideSoon());
  matrix.addEventListener("click", (event) => { if (buttonOf(event)) note.show(buttonOf(event)); });
}

function setUpMatrices() {
  const matrices = document.querySelectorAll("table.matrix");
  if (!matrices.length) return;
  const note = new VerdictNote();
  matrices.forEach((matrix) => setUpMatrix(matrix, note));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") note.hide(); });
  document.addEventListener("scroll", () => note.follow(), { capture: true, passive: true });
}

setUpMatrices();
