/** Draws a graph that is laid out, as SVG. */
"use strict";

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const FILL_COUNT = 10;
/** How far the ends of a line are drawn that goes further than is drawn. */
const FAR_LENGTH = 16;

/** @returns {SVGElement} an element with attributes and children; texts are text, never markup */
function svgElement(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG_NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The class for what a provider runs; -1: what no step runs. */
function fillClass(provider) {
  return provider < 0 ? "ep-none" : `ep-${provider % FILL_COUNT}`;
}

/** The layers of a picture, and its items by number. */
class GraphPicture {
  /**
   * @param {GraphData} data
   * @param {GraphScene} scene
   * @param {object} layout what the worker gave
   */
  constructor(data, scene, layout) {
    this.data = data;
    this.scene = scene;
    this.stage = scene.stage;
    this.layout = layout;
    this.boxes = new Map(layout.boxes.map((box) => [box.id, box]));
    this.elements = new Map();
    this.lines = layout.edges.map((edge) => this.line(edge));
    this.lineLayer = svgElement("g", { class: "graph-lines", "aria-hidden": "true" });
    this.lineLayer.append(...this.lines.map(({ path }) => path));
    this.groundLayer = svgElement("g", { class: "graph-grounds", "aria-hidden": "true" });
    this.itemLayer = svgElement("g", {
      class: "graph-items",
      role: "tree",
      "aria-label": "Nodes and groups in execution order",
    });
    for (const box of layout.boxes) this.draw(box);
  }

  get layers() {
    return [this.groundLayer, this.lineLayer, this.itemLayer];
  }

  // --- items ------------------------------------------------------------------------------------

  draw(box) {
    const isOpened = this.scene.isOpened(box.id);
    if (isOpened) this.groundLayer.append(this.ground(box));
    const element = svgElement("g", {
      class: this.itemClass(box.id),
      role: "treeitem",
      tabindex: "-1",
      transform: `translate(${box.x} ${box.y})`,
      "data-item": box.id,
      "aria-level": this.stage.depth(box.id),
      "aria-label": itemDescription(this.data, this.stage, box.id),
    });
    if (this.stage.group(box.id)) element.setAttribute("aria-expanded", String(isOpened));
    element.append(...(isOpened ? this.header(box) : this.folded(box)));
    this.elements.set(box.id, element);
    this.itemLayer.append(element);
  }

  itemClass(item) {
    if (this.stage.isEnd(item)) return "graph-item graph-end";
    if (this.stage.group(item)) {
      return `graph-item graph-group${this.scene.isOpened(item) ? " is-opened" : ""}`;
    }
    const isFused = this.stage.fused.has(this.stage.name(item));
    return `graph-item graph-node${isFused ? " is-fused" : ""}`;
  }

  /** The ground on which the content of an opened group lies. */
  ground({ x, y, width, height, id }) {
    const shade = this.stage.depth(id) % 2 ? "graph-ground" : "graph-ground is-even";
    return svgElement("rect", { class: shade, x, y, width, height, rx: 8 });
  }

  header({ id, width }) {
    const title = headerText(this.stage.group(id));
    return [
      svgElement("rect", { class: "graph-header", width, height: 24, rx: 8 }),
      svgElement("text", { class: "graph-sign", x: 10, y: 17 }, "−"),
      svgElement("text", { class: "head graph-title", x: 26, y: 17 }, title),
    ];
  }

  folded({ id, width, height }) {
    const [first, second] = itemLines(this.stage, id);
    const mark = partitionMark(this.stage, id);
    const parts = this.shape(id, width, height);
    const left = this.stage.group(id) ? 28 : 12;
    parts.push(svgElement("text", { class: "head", x: left, y: second ? 17 : 19 }, first));
    // What is faint could not be read on the colours of providers.
    const small = onlyProvider(this.stage, id) === null ? "small" : "name";
    if (second) parts.push(svgElement("text", { class: small, x: left, y: 32 }, second));
    if (mark) {
      parts.push(svgElement("text", { class: `${small} graph-mark`, x: width - 8, y: 15 }, mark));
    }
    return parts;
  }

  shape(item, width, height) {
    const size = { width, height };
    if (this.stage.isEnd(item)) {
      return [svgElement("rect", { class: "graph-box", ...size, rx: height / 2 })];
    }
    const group = this.stage.group(item);
    const provider = onlyProvider(this.stage, item);
    const fill = provider === null ? "" : ` ${fillClass(provider)}`;
    if (!group) return [svgElement("rect", { class: `graph-box${fill}`, ...size, rx: 5 })];
    return [
      svgElement("rect", { class: `graph-behind${fill}`, x: 4, y: 4, ...size, rx: 7 }),
      svgElement("rect", { class: `graph-box${fill}`, ...size, rx: 7 }),
      ...(provider === null ? shareBar(group, width, height) : []),
      svgElement("text", { class: "graph-sign", x: 10, y: 18 }, "+"),
    ];
  }

  // --- lines ------------------------------------------------------------------------------------

  line({ from, to, count, points, isFar }) {
    const path = svgElement("path", {
      class: isFar ? "graph-line is-far" : "graph-line",
      d: isFar ? farEnds(points) : smoothPath(points),
    });
    if (count > 1) path.setAttribute("stroke-width", Math.min(1 + Math.log2(count) / 2, 3.5));
    return { from: Number(from.slice(1)), to: Number(to.slice(1)), path, points, isFar };
  }

  /** Shows which lines begin or end at an item; null: at none. */
  highlight(item) {
    for (const { from, to, path, points, isFar } of this.lines) {
      const isOwn = item !== null && (from === item || to === item);
      path.classList.toggle("is-own", isOwn);
      if (isFar) path.setAttribute("d", isOwn ? smoothPath(points) : farEnds(points));
    }
    for (const [other, element] of this.elements) {
      element.classList.toggle("is-selected", other === item);
      element.setAttribute("aria-selected", String(other === item));
    }
  }
}

/** The provider of a node, or of all nodes in a group; null where they have several. */
function onlyProvider(stage, item) {
  if (stage.isNode(item)) return stage.providers[item];
  const shares = stage.group(item)?.providers ?? [];
  return shares.length === 1 ? shares[0][0] : null;
}

/** A folded group's share of each provider, as a bar at its lower border. */
function shareBar(group, width, height) {
  const room = width - 16;
  let left = 8;
  return group.providers.map(([provider, count]) => {
    const length = (room * count) / group.count;
    const attributes = { x: left, y: height - 9, width: length, height: 6 };
    left += length;
    return svgElement("rect", { class: `graph-share ${fillClass(provider)}`, ...attributes });
  });
}

/** A curve through the places in the middle of a line's corners. */
function smoothPath(points) {
  const [[x, y]] = points;
  if (points.length === 2) {
    const [, [endX, endY]] = points;
    const middle = (y + endY) / 2;
    return `M${x} ${y}C${x} ${middle} ${endX} ${middle} ${endX} ${endY}`;
  }
  const parts = [`M${x} ${y}`];
  for (let index = 1; index < points.length - 1; index++) {
    const [cornerX, cornerY] = points[index];
    const [nextX, nextY] = points[index + 1];
    const isLast = index === points.length - 2;
    const [endX, endY] = isLast ? [nextX, nextY] : [(cornerX + nextX) / 2, (cornerY + nextY) / 2];
    parts.push(`Q${cornerX} ${cornerY} ${endX} ${endY}`);
  }
  return parts.join("");
}

function farEnds([[startX, startY], [endX, endY]]) {
  return `M${startX} ${startY}v${FAR_LENGTH}M${endX} ${endY - FAR_LENGTH}v${FAR_LENGTH}`;
}

/** An item in words, for who hears the page. */
function itemDescription(data, stage, item) {
  if (stage.isEnd(item)) {
    const { kind, label } = stage.end(item);
    return `${kind} ${label}`;
  }
  const group = stage.group(item);
  if (group) {
    const shares = group.providers.map(([provider, count]) => `${providerName(data, provider)} ${count}`);
    return `group ${group.label}, ${counted(group.count, "node")}: ${shares.join(", ")}`;
  }
  const provider = providerName(data, stage.providers[item]);
  return `${stage.operator(item)} ${stage.name(item)}, ${provider}`;
}

function providerName(data, provider) {
  return provider < 0 ? "optimized away" : data.providers[provider];
}
