/**
 * Lays out opened groups, in a worker: this file runs after dagre, in a script of its own.
 *
 * Groups are laid out from inside out: an opened group becomes a box of the size that its own
 * layout has, so that no layout has more members than one group has children, and what did not
 * change is kept. Lines cross the border of an opened group at its ports.
 *
 * @typedef {object} LayoutGroup one opened group, as graph_scene.js asks for it
 * @property {number} id
 * @property {boolean} isRoot whether it is the whole graph, which has no border
 * @property {number} leastWidth that its header takes
 * @property {string} key equal keys have equal layouts
 * @property {Array<{id: number, width: number, height: number}|LayoutGroup>} children
 * @property {number[]} inPorts what lies outside and leads into the group, by id
 * @property {number[]} outPorts what lies outside and is led to
 * @property {Array<[string, string, number]>} edges from, to, and how many values: names of
 *     members are "c" and the child's id, "i" and "o" with the port's
 */
"use strict";

const HEADER_HEIGHT = 30;
const PADDING = 14;
const FAR_INSET = 14;
const MOST_KEPT = 300;
/** Of one line, and of all lines of a group together; lines beyond are only begun and ended. */
const MOST_RANKS_OF_A_LINE = 4;
const MOST_RANKS_PASSED = 300;
/** With more lines than that, ranks are found by a quicker way that leaves longer lines. */
const MOST_EDGES_RANKED_WELL = 700;

/** Layouts by key, the ones used longest ago first. */
const kept = new Map();

/**
 * @param {LayoutGroup} group
 * @returns {object} the layout relative to the group's upper left corner
 */
function layoutOf(group) {
  const known = kept.get(group.key);
  const found = known ?? freshLayout(group);
  kept.delete(group.key);
  kept.set(group.key, found);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return found;
}

function freshLayout(group) {
  const inner = new Map();
  for (const child of group.children) {
    if (child.children) inner.set(child.id, layoutOf(child));
  }
  const { near, far } = partedEdges(group);
  const graph = dagreGraph(group, near, inner);
  dagre.layout(graph);
  return placed(group, near, far, graph, inner);
}

/** The group's children and ports as dagre takes them, not yet placed. */
function dagreGraph(group, edges, inner) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({
    rankdir: "TB",
    nodesep: 18,
    edgesep: 10,
    ranksep: 34,
    ranker: edges.length > MOST_EDGES_RANKED_WELL ? "longest-path" : "network-simplex",
  });
  for (const child of group.children) {
    const { width, height } = inner.get(child.id) ?? child;
    graph.setNode(`c${child.id}`, { width, height });
  }
  for (const port of group.inPorts) graph.setNode(`i${port}`, { width: 1, height: 1 });
  for (const port of group.outPorts) graph.setNode(`o${port}`, { width: 1, height: 1 });
  for (const [from, to, count] of edges) {
    graph.setEdge(from, to, { weight: Math.min(count, 4), minlen: 1 });
  }
  keepPortsAtTheBorder(graph, group);
  return graph;
}

/**
 * Adds one member above and one below, next to which the ports are pulled.
 *
 * The first child in execution order holds the one up, the last the other down.
 */
function keepPortsAtTheBorder(graph, group) {
  const { children, inPorts, outPorts } = group;
  if (inPorts.length) {
    graph.setNode("top", { width: 1, height: 1 });
    for (const port of inPorts) graph.setEdge("top", `i${port}`, { weight: 20, minlen: 1 });
    graph.setEdge("top", `c${children[0].id}`, { weight: 1, minlen: 2 });
  }
  if (outPorts.length) {
    graph.setNode("bottom", { width: 1, height: 1 });
    for (const port of outPorts) graph.setEdge(`o${port}`, "bottom", { weight: 20, minlen: 1 });
    graph.setEdge(`c${children[children.length - 1].id}`, "bottom", { weight: 1, minlen: 2 });
  }
}

/**
 * Parts the lines into those that are led around what lies between and those that go too far.
 *
 * What a line passes costs time and room at every rank. So a long line is drawn as far, which is
 * begun and ended only, unless one of its ends would have no other line, and so are the longest
 * ones where all together pass too much.
 *
 * @returns {{near: Array, far: Array}}
 */
function partedEdges(group) {
  const ranks = ranksOf(group);
  const span = ([from, to]) => Math.abs(ranks.get(to) - ranks.get(from));
  const [near, far, joined] = [[], [], new Set()];
  let passed = 0;
  for (const edge of group.edges.slice().sort((one, other) => span(one) - span(other))) {
    const [leaving, entering] = [`${edge[0]}>`, `>${edge[1]}`];
    const isNeeded = !joined.has(leaving) || !joined.has(entering);
    const isShort = span(edge) <= MOST_RANKS_OF_A_LINE;
    if ((!isShort && !isNeeded) || passed + span(edge) > MOST_RANKS_PASSED) {
      far.push(edge);
      continue;
    }
    passed += span(edge);
    near.push(edge);
    joined.add(leaving).add(entering);
  }
  return { near, far };
}

/** About the rank that each member will have; lines that lead back count for nothing. */
function ranksOf(group) {
  const order = new Map(group.inPorts.map((port) => [`i${port}`, -1]));
  group.children.forEach((child, index) => order.set(`c${child.id}`, index));
  for (const port of group.outPorts) order.set(`o${port}`, group.children.length);
  const ranks = new Map([...order.keys()].map((name) => [name, 0]));
  const forward = group.edges.filter(([from, to]) => order.get(from) < order.get(to));
  forward.sort(([one], [other]) => order.get(one) - order.get(other));
  for (const [from, to] of forward) ranks.set(to, Math.max(ranks.get(to), ranks.get(from) + 1));
  pullDown(forward, ranks);
  return ranks;
}

/** Moves members with no more lines from above than to below next to what they lead to. */
function pullDown(forward, ranks) {
  const targets = new Map();
  const entering = new Map();
  for (const [from, to] of forward) {
    if (!targets.has(from)) targets.set(from, []);
    targets.get(from).push(to);
    entering.set(to, (entering.get(to) ?? 0) + 1);
  }
  for (const [from, listed] of [...targets].reverse()) {
    if (from[0] !== "c" || (entering.get(from) ?? 0) > listed.length) continue;
    ranks.set(from, Math.min(...listed.map((to) => ranks.get(to))) - 1);
  }
}

/** Reads what dagre found: boxes and lines from the group's upper left corner on. */
function placed(group, near, far, graph, inner) {
  const frame = frameOf(group, near, graph);
  const { width, height, shiftX, shiftY } = frame;
  const layout = { width, height, boxes: [], edges: [], inPorts: new Map(), outPorts: new Map() };
  for (const child of group.children) {
    const box = graph.node(`c${child.id}`);
    const left = box.x + shiftX - box.width / 2;
    const top = box.y + shiftY - box.height / 2;
    layout.boxes.push({ id: child.id, left, top, layout: inner.get(child.id) ?? null, box });
  }
  for (const port of group.inPorts) {
    layout.inPorts.set(port, { x: graph.node(`i${port}`).x + shiftX, y: 0 });
  }
  for (const port of group.outPorts) {
    layout.outPorts.set(port, { x: graph.node(`o${port}`).x + shiftX, y: height });
  }
  const corners = new Map(layout.boxes.map((each) => [`c${each.id}`, each]));
  for (const [from, to, count] of near) {
    const points = graph.edge(from, to).points.map(({ x, y }) => [x + shiftX, y + shiftY]);
    points[0] = start(layout, corners, from, to) ?? points[0];
    points[points.length - 1] = end(layout, corners, from, to) ?? points[points.length - 1];
    layout.edges.push({ from, to, count, points, isFar: false });
  }
  for (const [from, to, count] of far) {
    const first = start(layout, corners, from, to) ?? below(corners.get(from));
    const last = end(layout, corners, from, to) ?? above(corners.get(to));
    layout.edges.push({ from, to, count, points: [first, last], isFar: true });
  }
  return layout;
}

/** A group's size, and by how much what dagre placed is moved in it. */
function frameOf(group, near, graph) {
  const header = group.isRoot ? 0 : HEADER_HEIGHT;
  const extent = extentOf(group, near, graph);
  const [inWidth, inHeight] = [extent.right - extent.left, extent.bottom - extent.top];
  const spare = Math.max(0, group.leastWidth - inWidth - 2 * PADDING);
  return {
    width: inWidth + spare + 2 * PADDING,
    height: inHeight + header + 2 * PADDING,
    shiftX: PADDING + spare / 2 - extent.left,
    shiftY: PADDING + header - extent.top,
  };
}

/** Where far lines begin and end, beside the others. */
function below({ left, top, box }) {
  return [left + box.width - FAR_INSET, top + box.height];
}

function above({ left, top }) {
  return [left + FAR_INSET, top];
}

/** The space that children and lines take; ports lie on its border and take none. */
function extentOf(group, near, graph) {
  const extent = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  const take = (left, top, right, bottom) => {
    extent.left = Math.min(extent.left, left);
    extent.top = Math.min(extent.top, top);
    extent.right = Math.max(extent.right, right);
    extent.bottom = Math.max(extent.bottom, bottom);
  };
  for (const child of group.children) {
    const { x, y, width, height } = graph.node(`c${child.id}`);
    take(x - width / 2, y - height / 2, x + width / 2, y + height / 2);
  }
  for (const [from, to] of near) {
    for (const { x } of graph.edge(from, to).points) take(x, extent.top, x, extent.bottom);
  }
  return extent;
}

/** Where a line begins: at the group's port, or at that of the opened child that it leaves. */
function start(layout, corners, from, to) {
  if (from[0] === "i") return position(layout.inPorts.get(Number(from.slice(1))));
  const corner = corners.get(from);
  return corner.layout && portOf(corner, corner.layout.outPorts, Number(to.slice(1)));
}

/** Where a line ends: at the group's port, or at that of the opened child that it enters. */
function end(layout, corners, from, to) {
  if (to[0] === "o") return position(layout.outPorts.get(Number(to.slice(1))));
  const corner = corners.get(to);
  return corner.layout && portOf(corner, corner.layout.inPorts, Number(from.slice(1)));
}

/** A port of an opened child; -1 is the one port of a group that has very many. */
function portOf(corner, ports, other) {
  const port = ports.get(other) ?? ports.get(-1);
  return port ? [port.x + corner.left, port.y + corner.top] : null;
}

function position(port) {
  return port ? [port.x, port.y] : null;
}

/** Everything at its place in the whole picture: opened groups before what lies in them. */
function flattened(layout, left, top, found) {
  for (const edge of layout.edges) {
    const points = edge.points.map(([x, y]) => [round(x + left), round(y + top)]);
    found.edges.push({ ...edge, points });
  }
  for (const each of layout.boxes) {
    const { width, height } = each.layout ?? each.box;
    const [x, y] = [round(each.left + left), round(each.top + top)];
    found.boxes.push({ id: each.id, x, y, width: round(width), height: round(height) });
    if (each.layout) flattened(each.layout, each.left + left, each.top + top, found);
  }
  return found;
}

function round(length) {
  return Math.round(length * 10) / 10;
}

/**
 * @param {LayoutGroup} root
 * @returns {object} boxes, edges, width and height of the whole picture
 */
function layoutPicture(root) {
  const layout = layoutOf(root);
  const size = { width: round(layout.width), height: round(layout.height) };
  return flattened(layout, 0, 0, { ...size, boxes: [], edges: [] });
}

self.onmessage = ({ data }) => {
  try {
    self.postMessage({ number: data.number, picture: layoutPicture(data.root) });
  } catch (error) {
    self.postMessage({ number: data.number, failure: String(error) });
  }
};
