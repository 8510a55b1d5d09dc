/** Says in words what is selected in a graph, and what its colours mean. */
"use strict";

/** Values of one node, and what takes each, that are listed. */
const MOST_VALUES_LISTED = 12;
const MOST_NEIGHBOURS_LISTED = 4;

/** @returns {HTMLElement} an element with a class and children; texts are text, never markup */
function htmlElement(name, className, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** The panel beside the picture. */
class GraphDetails {
  /**
   * @param {HTMLElement} element a live region
   * @param {GraphData} data
   * @param {(item: number) => void} go shows another item
   * @param {(item: number) => void} toggle opens or closes a group
   */
  constructor(element, data, go, toggle) {
    this.element = element;
    this.data = data;
    this.go = go;
    this.toggle = toggle;
    this.hint = [...element.childNodes];
  }

  /** @param {?number} item null: nothing is selected */
  show(scene, item) {
    if (item === null) this.element.replaceChildren(...this.hint);
    else if (scene.stage.isEnd(item)) this.showEnd(scene.stage, item);
    else if (scene.stage.group(item)) this.showGroup(scene, item);
    else this.showNode(scene.stage, item);
  }

  showNode(stage, node) {
    const domain = stage.domain(node);
    const title = domain ? `${stage.operator(node)} of ${domain}` : stage.operator(node);
    this.element.replaceChildren(
      htmlElement("h4", "", title),
      this.facts(this.nodeFacts(stage, node)),
      ...this.values(stage, "Inputs", stage.inputs.of(node), (value) => [stage.origin(value)]),
      ...this.values(stage, "Outputs", stage.outputs.of(node), (value) => [
        ...stage.consumers.of(value),
        stage.endOfOutput.get(value) ?? -1,
      ]),
    );
  }

  nodeFacts(stage, node) {
    const provider = stage.providers[node];
    const partition = this.data.partitions[stage.partitions[node]];
    const step = stage.steps[node];
    return [
      ["Name", stage.name(node)],
      ["Execution provider", this.providerSentence(provider, partition, step)],
      ["Step", step < 0 ? "" : String(step + 1)],
      ["Kernel", stage.kernel(node)],
      ["Partition", partition?.fusedNode ? this.partitionText(stage.partitions[node]) : ""],
    ];
  }

  providerSentence(provider, partition, step) {
    if (provider < 0) return "none: optimizations folded it, or fused it into other nodes";
    const name = this.data.providers[provider];
    if (step >= 0 || partition?.fusedNode) return name;
    return `${name}, which fused it into other nodes`;
  }

  partitionText(index) {
    const { fusedNode, count } = this.data.partitions[index];
    return `P${index + 1}: ${counted(count, "node")} of the model file as one, ${fusedNode}`;
  }

  showGroup(scene, item) {
    const group = scene.stage.group(item);
    const button = htmlElement("button", "tool", scene.isOpened(item) ? "Close" : "Open");
    button.type = "button";
    button.addEventListener("click", () => this.toggle(item));
    const listed = (pairs) => pairs.map(([name, count]) => `${name} ${count}`).join(", ");
    const fused = scene.stage.fusedPartitions.has(group.partition);
    this.element.replaceChildren(
      htmlElement("h4", "", group.label),
      button,
      this.facts([
        ["Kind", group.isRun ? "nodes that follow each other in execution order" : "module"],
        ["Nodes", String(group.count)],
        ["Operators", listed(group.operators)],
        [
          "Execution providers",
          listed(group.providers.map(([each, count]) => [providerName(this.data, each), count])),
        ],
        ["Lies whole in", fused ? this.partitionText(group.partition) : ""],
      ]),
    );
  }

  showEnd(stage, item) {
    const { kind, label, values } = stage.end(item);
    const neighbours = kind === "input" ? (value) => stage.consumers.of(value) : () => [];
    this.element.replaceChildren(
      htmlElement("h4", "", `Graph ${kind} ${label}`),
      ...this.values(stage, "Values", values, neighbours),
    );
  }

  facts(pairs) {
    const list = htmlElement("dl", "");
    for (const [what, text] of pairs) {
      if (text) list.append(htmlElement("dt", "", what), htmlElement("dd", "", text));
    }
    return list;
  }

  /** A heading and a list of values with their types, and buttons to what makes or takes them. */
  values(stage, title, values, neighboursOf) {
    const named = Array.from(values).filter((value) => stage.isNamed(value));
    if (!named.length) return [];
    const entries = named.slice(0, MOST_VALUES_LISTED).map((value) => {
      const entry = htmlElement("li", "", htmlElement("span", "graph-value", stage.valueName(value)));
      if (stage.typeOf(value)) entry.append(htmlElement("span", "graph-type", stage.typeOf(value)));
      const neighbours = Array.from(neighboursOf(value)).filter((item) => item >= 0);
      entry.append(...neighbours.slice(0, MOST_NEIGHBOURS_LISTED).map((item) => this.link(stage, item)));
      if (neighbours.length > MOST_NEIGHBOURS_LISTED) {
        entry.append(` and ${neighbours.length - MOST_NEIGHBOURS_LISTED} more`);
      }
      return entry;
    });
    if (named.length > entries.length) {
      entries.push(htmlElement("li", "", `and ${named.length - entries.length} more`));
    }
    return [htmlElement("h5", "", title), htmlElement("ul", "", ...entries)];
  }

  link(stage, item) {
    const text = stage.isEnd(item) ? `${stage.end(item).kind} of the graph` : stage.operator(item);
    const button = htmlElement("button", "graph-link", text);
    button.type = "button";
    button.setAttribute("aria-label", `Go to ${itemDescription(this.data, stage, item)}`);
    button.addEventListener("click", () => this.go(item));
    return button;
  }
}

/** Which colour stands for which provider, with counts of nodes. */
function showLegend(list, data, stage) {
  const counts = stage.groups[0].providers;
  list.replaceChildren(
    ...counts.map(([provider, count]) => {
      const swatch = svgElement(
        "svg",
        { class: "picture graph-swatch", width: 16, height: 12, "aria-hidden": "true" },
        svgElement("rect", { class: `graph-box ${fillClass(provider)}`, width: 16, height: 12, rx: 3 }),
      );
      return htmlElement("li", "", swatch, `${providerName(data, provider)}: ${counted(count, "node")}`);
    }),
  );
}
