/** Finds nodes by their names, operators and values, and groups by their names. */
"use strict";

const MOST_HITS = 40;
const SEARCH_DELAY_MS = 150;

/**
 * @param {GraphStage} stage
 * @param {string} words what is looked for; upper and lower case are alike
 * @returns {{hits: Array<{item: number, text: string, value: string}>, count: number}} the first
 *     hits, those by their values last, and of how many
 */
function foundItems(stage, words) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return { hits: [], count: 0 };
  const matches = stage.texts.map((text) => text.toLowerCase().includes(wanted));
  const found = stage.groups.flatMap((group, index) =>
    index && group.label.toLowerCase().includes(wanted)
      ? [{ item: stage.itemOfGroup(index), text: `${group.label}: ${counted(group.count, "node")}`, value: "" }]
      : [],
  );
  const byValue = [];
  for (let node = 0; node < stage.nodeCount; node++) {
    const hit = { item: node, text: `${stage.operator(node)}: ${stage.name(node)}`, value: "" };
    if (matches[stage.names[node]] || matches[stage.operators[node]]) {
      found.push(hit);
      continue;
    }
    const value = matchingValue(stage, node, matches);
    if (value !== undefined) byValue.push({ ...hit, value: stage.valueName(value) });
  }
  found.push(...byValue);
  return { hits: found.slice(0, MOST_HITS), count: found.length };
}

function matchingValue(stage, node, matches) {
  const isMatch = (value) => matches[stage.values[value]];
  return stage.outputs.of(node).find(isMatch) ?? stage.inputs.of(node).find(isMatch);
}

/** The search field of a view, with what it found. */
class GraphSearch {
  /**
   * @param {HTMLElement} element holds the field, the count and the list
   * @param {() => GraphStage} stage in which to look
   * @param {(item: number) => void} choose called with the hit that is chosen
   */
  constructor(element, stage, choose) {
    this.field = element.querySelector("input");
    this.count = element.querySelector(".graph-hit-count");
    this.list = element.querySelector(".graph-hits");
    this.stage = stage;
    this.choose = choose;
    this.timer = 0;
    this.field.addEventListener("input", () => this.later());
    this.field.addEventListener("keydown", (event) => this.onFieldKey(event));
    this.list.addEventListener("keydown", (event) => this.onListKey(event));
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), SEARCH_DELAY_MS);
  }

  search() {
    clearTimeout(this.timer);
    const { hits, count } = foundItems(this.stage(), this.field.value);
    this.list.replaceChildren(...hits.map((hit) => this.entry(hit)));
    this.list.hidden = !hits.length;
    const more = count > hits.length ? `, the first ${hits.length} are listed` : "";
    this.count.textContent = this.field.value.trim() ? `${count} found${more}` : "";
  }

  clear() {
    this.field.value = "";
    this.search();
  }

  entry({ item, text, value }) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = shortLabel(text, 90);
    button.title = text;
    if (value) button.append(htmlElement("span", "graph-type", `value ${shortLabel(value, 90)}`));
    button.addEventListener("click", () => this.take(item));
    const entry = document.createElement("li");
    entry.append(button);
    return entry;
  }

  take(item) {
    this.list.hidden = true;
    this.choose(item);
  }

  onFieldKey(event) {
    if (event.key === "Enter") {
      this.search();
      this.list.querySelector("button")?.click();
    } else if (event.key === "ArrowDown" && !this.list.hidden) {
      this.list.querySelector("button").focus();
    } else if (event.key === "Escape") {
      this.clear();
    } else return;
    event.preventDefault();
  }

  onListKey(event) {
    const entry = event.target.closest("li");
    if (event.key === "ArrowDown") entry.nextElementSibling?.firstChild.focus();
    else if (event.key === "ArrowUp") (entry.previousElementSibling?.firstChild ?? this.field).focus();
    else if (event.key === "Escape") {
      this.clear();
      this.field.focus();
    } else return;
    event.preventDefault();
  }
}
