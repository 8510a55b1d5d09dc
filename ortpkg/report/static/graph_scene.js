/** Which items of a graph are visible, given the groups that are open, and how large they are. */
"use strict";

/** Items that are visible at a time; a group that is opened beyond closes the ones opened first. */
const MOST_VISIBLE = 600;
/** What "open all" shows, and what is open at the start. */
const MOST_OPENED_AT_ONCE = 300;
const MOST_OPENED_AT_START = 40;
const MOST_LABEL_CHARACTERS = 28;
/** As the stylesheet of pictures has them. */
const HEAD_FONT = "600 13px system-ui, sans-serif";
const SMALL_FONT = "11px system-ui, sans-serif";
const MARK_FONT = "600 11px system-ui, sans-serif";

const measured = new Map();
const measuring = document.createElement("canvas").getContext("2d");

/** How wide a text is, in pixels. */
function textWidth(text, font) {
  const key = `${font}|${text}`;
  if (!measured.has(key)) {
    measuring.font = font;
    measured.set(key, measuring.measureText(text).width);
  }
  return measured.get(key);
}

/** The opened groups of one stage, and what that makes visible. */
class GraphScene {
  /** @param {GraphStage} stage */
  constructor(stage) {
    this.stage = stage;
    /** Opened groups as items, the ones opened first before others. */
    this.opened = new Set([stage.root]);
    this.openLevels(MOST_OPENED_AT_START);
  }

  isOpened(item) {
    return this.opened.has(item);
  }

  /** The visible items in execution order, opened groups before what they hold. */
  visible() {
    const found = [];
    const add = (item) => {
      found.push(item);
      if (this.isOpened(item)) this.stage.group(item).children.forEach(add);
    };
    this.stage.group(this.stage.root).children.forEach(add);
    return found;
  }

  /** The item itself where it is visible, else the folded group in which it lies. */
  shownFor(item) {
    const folded = this.stage.around(item).filter((outer) => !this.isOpened(outer));
    return folded.length ? folded[folded.length - 1] : item;
  }

  open(item) {
    this.opened.delete(item);
    this.opened.add(item);
    const needed = new Set([item, ...this.stage.around(item)]);
    for (const group of this.opened) {
      if (this.visible().length <= MOST_VISIBLE) return;
      if (!needed.has(group)) this.close(group);
    }
  }

  /** Closes a group and those in it. */
  close(item) {
    for (const group of [...this.opened]) {
      if (group === item || this.stage.around(group).includes(item)) this.opened.delete(group);
    }
  }

  closeAll() {
    this.opened = new Set([this.stage.root]);
  }

  /** Opens whole levels of groups, and of the last level as many as there is room for. */
  openAll() {
    this.openLevels(MOST_OPENED_AT_ONCE);
    this.openSome(MOST_OPENED_AT_ONCE);
  }

  /** Opens groups level by level, as long as no more items than that are visible. */
  openLevels(most) {
    for (let level = this.foldedGroups(); level.length; level = this.foldedGroups()) {
      const added = level.reduce((sum, item) => sum + this.stage.group(item).children.length, 0);
      if (this.visible().length + added > most) return;
      level.forEach((item) => this.opened.add(item));
    }
  }

  openSome(most) {
    let count = this.visible().length;
    for (const item of this.foldedGroups()) {
      count += this.stage.group(item).children.length;
      if (count > most) return;
      this.opened.add(item);
    }
  }

  foldedGroups() {
    return this.visible().filter((item) => this.stage.group(item) && !this.isOpened(item));
  }

  /** Opens what hides an item. */
  reveal(item) {
    for (const group of this.stage.around(item).reverse()) {
      if (!this.isOpened(group)) this.open(group);
    }
  }

  /** What the layout worker is asked for: a LayoutGroup of layout_worker.js. */
  layoutRequest() {
    return this.requestFor(this.stage.root);
  }

  requestFor(item) {
    const children = this.stage.group(item).children.map((child) =>
      this.isOpened(child) ? this.requestFor(child) : { id: child, ...itemSize(this.stage, child) },
    );
    const isRoot = item === this.stage.root;
    const inner = children.filter((child) => child.children).map((child) => child.key);
    return {
      id: item,
      isRoot,
      leastWidth: isRoot ? 0 : textWidth(headerText(this.stage.group(item)), HEAD_FONT) + 44,
      key: `${item}(${inner.join(",")})`,
      children,
      ...this.stage.level(item),
    };
  }
}

/** @returns {string} "1 node", "2 nodes" */
function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** The title of an opened group. */
function headerText({ label, count }) {
  return `${shortLabel(label)} (${counted(count, "node")})`;
}

/** A text of at most so many characters; of long names the end tells more than the beginning. */
function shortLabel(text, most = MOST_LABEL_CHARACTERS) {
  const characters = Array.from(text);
  if (characters.length <= most) return text;
  return `…${characters.slice(characters.length - most + 1).join("")}`;
}

/** The two lines that an item shows: what it is, and which one. */
function itemLines(stage, item) {
  if (stage.isEnd(item)) {
    const { kind, label, values } = stage.end(item);
    return [shortLabel(label), values.length > 1 ? "" : stage.typeOf(values[0]) || kind];
  }
  const group = stage.group(item);
  if (group) {
    const nodes = counted(group.count, "node");
    const named = group.operators.slice(0, 2).map(([name]) => name);
    return [shortLabel(group.label), [nodes, ...named].join(" · ")];
  }
  const partition = stage.fused.get(stage.name(item));
  if (partition) return [shortLabel(stage.operator(item)), `${counted(partition.count, "node")} as one`];
  const own = stage.name(item).split(/\/|::/).pop();
  return [shortLabel(stage.operator(item)), own === stage.operator(item) ? "" : shortLabel(own)];
}

function itemSize(stage, item) {
  const [first, second] = itemLines(stage, item);
  const text = Math.max(textWidth(first, HEAD_FONT), textWidth(second, SMALL_FONT));
  const mark = textWidth(partitionMark(stage, item), MARK_FONT);
  const sign = stage.group(item) ? 20 : 0;
  const width = Math.max(64, Math.round(text + mark) + 24 + (mark && 8) + sign);
  return { width, height: stage.group(item) ? 46 : second ? 40 : 28 };
}

/** "P2" for what the second partition runs as one fused node, or lies in it; else "". */
function partitionMark(stage, item) {
  if (stage.isEnd(item)) return "";
  const partition = stage.group(item) ? stage.group(item).partition : stage.partitions[item];
  return partition >= 0 && stage.fusedPartitions.has(partition) ? `P${partition + 1}` : "";
}
