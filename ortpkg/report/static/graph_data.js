/**
 * What the page says of a model's graph: nodes, values and groups, of the file and as it runs.
 *
 * Items of a stage have numbers: nodes first, then groups, then the graph's inputs and outputs.
 */
"use strict";

const GRAPH_PAYLOAD_VERSION = 1;
/** More inputs or outputs than that are shown as one. */
const MOST_ENDS_SHOWN = 8;
/** More neighbours of an opened group than that share one port. */
const MOST_PORTS = 6;

/**
 * @param {string} packed base64 of text compressed by zlib
 * @returns {Promise<string>} the text
 */
async function unpackText(packed) {
  const bytes = Uint8Array.from(atob(packed.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** One graph of a model. */
class GraphData {
  /** @param {string} packed as graph_payload.py packs it */
  static async unpack(packed) {
    const document = JSON.parse(await unpackText(packed));
    if (document.version !== GRAPH_PAYLOAD_VERSION) throw new Error("an unknown kind of data");
    return new GraphData(document);
  }

  constructor(document) {
    this.providers = document.providers;
    this.partitions = document.partitions.map(([provider, fusedNode, count]) => ({
      provider,
      fusedNode: document.texts[fusedNode],
      count,
    }));
    this.before = new GraphStage(document.before, document.texts, this.partitions);
    this.after = document.after && new GraphStage(document.after, document.texts, this.partitions);
  }
}

/** @param {number[]} differences each number less the one before */
function summed(differences) {
  let sum = 0;
  return Int32Array.from(differences, (difference) => (sum += difference));
}

/** Lists of different lengths in one array. */
class Lists {
  constructor(counts, entries) {
    this.entries = entries;
    this.starts = new Int32Array(counts.length + 1);
    counts.forEach((count, index) => (this.starts[index + 1] = this.starts[index] + count));
  }

  of(index) {
    return this.entries.subarray(this.starts[index], this.starts[index + 1]);
  }
}

/** The graph at one time: of the file, or as it runs. */
class GraphStage {
  constructor(stage, texts, partitions) {
    const nodes = stage.nodes;
    /** The partition behind each fused node's name. */
    this.fused = new Map(partitions.map((each) => [each.fusedNode, each]));
    this.fused.delete("");
    this.fusedPartitions = new Set(
      partitions.flatMap((each, index) => (each.fusedNode ? [index] : [])),
    );
    this.nodeCount = nodes.groups.length;
    this.leftOut = stage.leftOut;
    this.texts = texts;
    this.names = summed(nodes.names);
    this.operators = nodes.operators;
    this.domains = nodes.domains;
    this.kernels = nodes.kernels;
    this.providers = nodes.providers;
    this.partitions = nodes.partitions;
    this.steps = nodes.steps;
    this.inputs = new Lists(nodes.inputCounts, summed(nodes.inputs));
    this.outputs = new Lists(nodes.outputCounts, summed(nodes.outputs));
    this.values = summed(stage.values);
    this.types = stage.types;
    this.levels = new Map();
    this.owner = new Int32Array(this.nodeCount).fill(-1);
    this.readGroups(stage.groups, nodes.groups);
    this.readEnds(stage.inputs, stage.outputs);
    this.linkValues();
  }

  readGroups(groups, groupOf) {
    this.groupOf = groupOf;
    this.groups = groups.map(([label, parent, isRun, count, operators, providers, partition]) => ({
      label: this.texts[label],
      parent,
      isRun: Boolean(isRun),
      count,
      operators: operators.map(([name, times]) => [this.texts[name], times]),
      providers,
      partition,
      children: [],
    }));
    const isPlaced = new Uint8Array(groups.length);
    isPlaced[0] = 1;
    groupOf.forEach((group, node) => this.place(node, group, isPlaced));
  }

  /** Adds a node to its group's children, and groups that it is the first node of to theirs. */
  place(node, group, isPlaced) {
    this.groups[group].children.push(node);
    for (let inner = group; !isPlaced[inner]; inner = this.groups[inner].parent) {
      isPlaced[inner] = 1;
      this.groups[this.groups[inner].parent].children.push(this.itemOfGroup(inner));
    }
  }

  /** Inputs and outputs of the graph as items of the outermost group. */
  readEnds(inputs, outputs) {
    this.ends = [...this.endsOf("input", inputs), ...this.endsOf("output", outputs)];
    const first = this.nodeCount + this.groups.length;
    this.endOfInput = new Map();
    this.endOfOutput = new Map();
    this.ends.forEach((end, index) => {
      const found = end.kind === "input" ? this.endOfInput : this.endOfOutput;
      for (const value of end.values) found.set(value, first + index);
    });
    const items = this.ends.map((end, index) => first + index);
    const inputCount = this.ends.filter((end) => end.kind === "input").length;
    const children = this.groups[0].children;
    this.groups[0].children = [
      ...items.slice(0, inputCount),
      ...children,
      ...items.slice(inputCount),
    ];
  }

  endsOf(kind, values) {
    if (values.length > MOST_ENDS_SHOWN) {
      return [{ kind, label: `${values.length} ${kind}s`, values }];
    }
    return values.map((value) => ({ kind, label: this.valueName(value), values: [value] }));
  }

  /** Which node makes each value, and which take it. */
  linkValues() {
    this.producers = new Int32Array(this.values.length).fill(-1);
    const counts = new Int32Array(this.values.length);
    for (let node = 0; node < this.nodeCount; node++) {
      for (const value of this.outputs.of(node)) if (this.isNamed(value)) this.producers[value] = node;
      for (const value of this.inputs.of(node)) counts[value]++;
    }
    const total = counts.reduce((sum, count) => sum + count, 0);
    this.consumers = new Lists(counts, new Int32Array(total));
    const next = this.consumers.starts.slice();
    for (let node = 0; node < this.nodeCount; node++) {
      for (const value of this.inputs.of(node)) this.consumers.entries[next[value]++] = node;
    }
  }

  // --- items ------------------------------------------------------------------------------------

  itemOfGroup(group) {
    return this.nodeCount + group;
  }

  get root() {
    return this.itemOfGroup(0);
  }

  isNode(item) {
    return item < this.nodeCount;
  }

  isEnd(item) {
    return item >= this.nodeCount + this.groups.length;
  }

  /** The group that an item is; null for nodes and the graph's inputs and outputs. */
  group(item) {
    return this.groups[item - this.nodeCount] ?? null;
  }

  end(item) {
    return this.ends[item - this.nodeCount - this.groups.length];
  }

  /** The group around an item, as an item; -1 for the outermost. */
  parent(item) {
    if (this.isEnd(item)) return this.root;
    if (this.isNode(item)) return this.itemOfGroup(this.groupOf[item]);
    const { parent } = this.group(item);
    return parent < 0 ? -1 : this.itemOfGroup(parent);
  }

  /** The groups around an item, innermost first. */
  around(item) {
    const found = [];
    for (let outer = this.parent(item); outer >= 0; outer = this.parent(outer)) found.push(outer);
    return found;
  }

  /** How deep an item lies: 1 for what the outermost group holds. */
  depth(item) {
    return this.around(item).length;
  }

  // --- texts ------------------------------------------------------------------------------------

  name(node) {
    return this.texts[this.names[node]];
  }

  operator(node) {
    return this.texts[this.operators[node]];
  }

  domain(node) {
    return this.texts[this.domains[node]];
  }

  kernel(node) {
    return this.texts[this.kernels[node]];
  }

  valueName(value) {
    return this.texts[this.values[value]];
  }

  typeOf(value) {
    return this.texts[this.types[value]];
  }

  isNamed(value) {
    return this.valueName(value) !== "";
  }

  // --- edges ------------------------------------------------------------------------------------

  /** What leads to an item: items of the same kind of detail, each once. */
  sources(item) {
    return this.neighbours(item, (node) => this.nodesBefore(node));
  }

  /** What an item leads to. */
  targets(item) {
    return this.neighbours(item, (node) => this.nodesAfter(node));
  }

  neighbours(item, ofNode) {
    const inside = new Set(this.nodesIn(item));
    const found = new Set();
    for (const node of inside) {
      for (const other of ofNode(node)) if (!inside.has(other)) found.add(other);
    }
    return [...found];
  }

  /** Nodes and graph inputs that a node, or a graph output, takes values of. */
  nodesBefore(item) {
    if (this.isEnd(item)) {
      const { kind, values } = this.end(item);
      return kind === "output" ? values.map((value) => this.origin(value)).filter(isItem) : [];
    }
    return Array.from(this.inputs.of(item), (value) => this.origin(value)).filter(isItem);
  }

  /** Nodes and graph outputs that take values of a node, or of a graph input. */
  nodesAfter(item) {
    const values = this.isEnd(item) ? this.inputValues(item) : this.outputs.of(item);
    const found = [];
    for (const value of values) {
      if (!this.isNamed(value)) continue;
      found.push(...this.consumers.of(value));
      if (!this.isEnd(item) && this.endOfOutput.has(value)) found.push(this.endOfOutput.get(value));
    }
    return found;
  }

  inputValues(item) {
    const { kind, values } = this.end(item);
    return kind === "input" ? values : [];
  }

  /** What makes a value: a node or an input of the graph; -1 for weights and outer values. */
  origin(value) {
    if (!this.isNamed(value)) return -1;
    return this.producers[value] >= 0 ? this.producers[value] : (this.endOfInput.get(value) ?? -1);
  }

  /** All nodes, inputs and outputs in an item. */
  nodesIn(item) {
    const group = this.group(item);
    return group ? group.children.flatMap((child) => this.nodesIn(child)) : [item];
  }

  /**
   * What one opened group shows: lines between its children, and to its ports.
   *
   * A port stands for what lies outside: the outermost item there that does not hold the group.
   */
  level(item) {
    if (!this.levels.has(item)) this.levels.set(item, this.freshLevel(item));
    return this.levels.get(item);
  }

  freshLevel(item) {
    const childOf = new Map();
    for (const child of this.group(item).children) {
      for (const node of this.nodesIn(child)) childOf.set(node, child);
    }
    const around = new Set([item, ...this.around(item)]);
    const edges = new EdgeCounts();
    for (const [node, child] of childOf) {
      for (const source of this.nodesBefore(node)) {
        const inside = childOf.get(source);
        if (inside === undefined) edges.enter(this.outermost(source, around), child);
        else if (inside !== child) edges.join(inside, child);
      }
      for (const target of this.nodesAfter(node)) {
        if (!childOf.has(target)) edges.leave(child, this.outermost(target, around));
      }
    }
    return edges.level();
  }

  /** The outermost item that holds ``item`` and none of the groups in ``around``. */
  outermost(item, around) {
    let found = item;
    while (!around.has(this.parent(found))) found = this.parent(found);
    return found;
  }
}

function isItem(item) {
  return item >= 0;
}

/** Counts lines between children of a group, into it and out of it. */
class EdgeCounts {
  constructor() {
    this.inner = new Map();
    this.entering = new Map();
    this.leaving = new Map();
  }

  join(from, to) {
    countUp(this.inner, `c${from} c${to}`);
  }

  enter(port, to) {
    countUp(mapIn(this.entering, port), to);
  }

  leave(from, port) {
    countUp(mapIn(this.leaving, port), from);
  }

  level() {
    const edges = [...this.inner].map(([key, times]) => [...key.split(" "), times]);
    const [entering, leaving] = [joinedPorts(this.entering), joinedPorts(this.leaving)];
    for (const [port, children] of entering) {
      for (const [child, times] of children) edges.push([`i${port}`, `c${child}`, times]);
    }
    for (const [port, children] of leaving) {
      for (const [child, times] of children) edges.push([`c${child}`, `o${port}`, times]);
    }
    return { edges, inPorts: [...entering.keys()], outPorts: [...leaving.keys()] };
  }
}

function countUp(counts, key) {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function mapIn(maps, key) {
  if (!maps.has(key)) maps.set(key, new Map());
  return maps.get(key);
}

/** The ports with their lines; one port, -1, where they are many. */
function joinedPorts(ports) {
  if (ports.size <= MOST_PORTS) return ports;
  const joined = new Map();
  for (const children of ports.values()) {
    for (const [child, times] of children) joined.set(child, (joined.get(child) ?? 0) + times);
  }
  return new Map([[-1, joined]]);
}
