/** Shows a model's graph where the page has one: what is drawn, and what keys and clicks do. */
"use strict";

/** Below that no text can be read; the start shows the upper part of a graph rather than less. */
const LEAST_READABLE_ZOOM = 0.75;

/** One graph on the page. */
class GraphView {
  /**
   * @param {HTMLElement} element of graphs.html.j2
   * @param {GraphData} data
   * @param {GraphLayouter} layouter
   */
  constructor(element, data, layouter) {
    this.element = element;
    this.data = data;
    this.layouter = layouter;
    this.status = element.querySelector(".graph-status");
    this.svg = element.querySelector("svg.graph-picture");
    this.content = svgElement("g");
    this.svg.classList.add("picture");
    this.svg.append(this.content);
    this.camera = new GraphCamera(this.svg, this.content);
    this.scenes = new Map();
    this.selected = null;
    this.request = 0;
    const go = (item) => this.go(item);
    const toggle = (item) => this.toggle(item);
    this.details = new GraphDetails(element.querySelector(".graph-details"), data, go, toggle);
    this.search = new GraphSearch(element.querySelector(".graph-search"), () => this.stage, go);
    this.listen();
    this.chooseStage(this.data.after ? "after" : "before");
  }

  get stage() {
    return this.scene.stage;
  }

  listen() {
    this.svg.addEventListener("click", (event) => this.onClick(event));
    this.svg.addEventListener("keydown", (event) => this.onKey(event));
    this.svg.addEventListener("focusin", (event) => this.onFocus(event));
    this.element.addEventListener("click", (event) => this.onButton(event));
    window.addEventListener("beforeprint", () => this.picture && this.camera.fillPaper(this.picture.layout));
    window.addEventListener("afterprint", () => this.picture && this.camera.leavePaper());
    for (const choice of this.element.querySelectorAll("input[type=radio]")) {
      choice.disabled = !this.data[choice.value];
      choice.addEventListener("change", () => this.chooseStage(choice.value));
    }
  }

  // --- what is shown ----------------------------------------------------------------------------

  /** @param {"before"|"after"} name */
  async chooseStage(name) {
    const stage = this.data[name];
    const kept = this.sameItem(stage);
    if (!this.scenes.has(name)) this.scenes.set(name, new GraphScene(stage));
    this.scene = this.scenes.get(name);
    for (const choice of this.element.querySelectorAll("input[type=radio]")) {
      choice.checked = choice.value === name;
    }
    showLegend(this.element.querySelector(".graph-legend"), this.data, stage);
    this.search.clear();
    this.selected = kept;
    if (kept !== null) this.scene.reveal(kept);
    if (!(await this.draw())) return;
    this.camera.fit(this.picture.layout, LEAST_READABLE_ZOOM);
    this.select(kept);
    if (kept !== null) this.camera.show(this.picture.boxes.get(kept), LEAST_READABLE_ZOOM);
  }

  /** The node of another stage that has the name of the selected one; null where there is none. */
  sameItem(stage) {
    if (this.selected === null || !this.stage.isNode(this.selected)) return null;
    const name = this.stage.name(this.selected);
    const node = stage.names.findIndex((text) => stage.texts[text] === name);
    return node < 0 ? null : node;
  }

  /**
   * Has the scene laid out and draws it; what was drawn before stays until then.
   *
   * @returns {Promise<boolean>} false where something else was asked for meanwhile, or nothing came
   */
  async draw() {
    const request = ++this.request;
    this.element.setAttribute("aria-busy", "true");
    this.say("Laying out the graph …");
    try {
      const layout = await this.layouter.layout(this.scene.layoutRequest());
      if (request !== this.request) return false;
      this.replacePicture(new GraphPicture(this.data, this.scene, layout));
      this.say(this.summary());
      return true;
    } catch (error) {
      if (request === this.request) this.say(`The graph cannot be drawn: ${error.message}`);
      return false;
    } finally {
      if (request === this.request) this.element.removeAttribute("aria-busy");
    }
  }

  replacePicture(picture) {
    const focused = this.svg.contains(document.activeElement)
      ? Number(document.activeElement.dataset.item)
      : null;
    this.picture = picture;
    this.content.replaceChildren(...picture.layers);
    this.element.classList.add("is-drawn");
    picture.highlight(this.selected);
    this.makeReachable(this.selected);
    if (focused !== null) picture.elements.get(this.scene.shownFor(focused))?.focus({ preventScroll: true });
  }

  summary() {
    const shown = this.picture.boxes.size;
    const left = this.stage.leftOut;
    const more = left ? `; ${left} nodes beyond the first ${this.stage.nodeCount} are not shown` : "";
    return `${counted(this.stage.nodeCount, "node")}, ${counted(shown, "item")} visible${more}`;
  }

  say(words) {
    this.status.textContent = words;
  }

  // --- what is selected -------------------------------------------------------------------------

  select(item) {
    this.selected = item;
    this.picture.highlight(item);
    this.makeReachable(item);
    this.details.show(this.scene, item);
  }

  /** One item alone is reached by the tab key: the selected one, else the first. */
  makeReachable(item) {
    const { elements } = this.picture;
    const [first] = elements.keys();
    for (const element of elements.values()) element.setAttribute("tabindex", "-1");
    (elements.get(item) ?? elements.get(first))?.setAttribute("tabindex", "0");
  }

  /** Selects an item, wherever it is hidden, and moves the focus to it. */
  async go(item) {
    const isHidden = this.scene.shownFor(item) !== item;
    if (isHidden) {
      this.scene.reveal(item);
      if (!(await this.draw())) return;
    }
    this.camera.show(this.picture.boxes.get(item), LEAST_READABLE_ZOOM);
    this.focus(item);
  }

  focus(item) {
    this.picture.elements.get(item)?.focus({ preventScroll: true });
  }

  async toggle(item) {
    const place = this.camera.seen(this.picture.boxes.get(item));
    if (this.scene.isOpened(item)) this.scene.close(item);
    else this.scene.open(item);
    if (!(await this.draw())) return;
    const box = this.picture.boxes.get(item);
    this.camera.pin(box, place);
    this.camera.show({ ...box, height: Math.min(box.height, 40) });
    this.select(item);
  }

  // --- keys and clicks --------------------------------------------------------------------------

  itemAt(event) {
    const element = event.target.closest("[data-item]");
    return element && this.svg.contains(element) ? Number(element.dataset.item) : null;
  }

  onClick(event) {
    const item = this.itemAt(event);
    if (item === null) return this.select(null);
    this.focus(item);
    if (this.stage.group(item)) this.toggle(item);
  }

  onFocus(event) {
    const item = this.itemAt(event);
    if (item !== null && item !== this.selected) this.select(item);
  }

  onButton(event) {
    const name = event.target.closest("button[data-does]")?.dataset.does;
    const does = {
      "zoom-in": () => this.camera.zoomBy(ZOOM_STEP),
      "zoom-out": () => this.camera.zoomBy(1 / ZOOM_STEP),
      fit: () => this.camera.fit(this.picture.layout),
      "open-all": () => this.change(() => this.scene.openAll()),
      "close-all": () => this.change(() => this.scene.closeAll()),
    };
    if (name && this.picture) does[name]();
  }

  async change(act) {
    act();
    if (this.selected !== null) this.selected = this.scene.shownFor(this.selected);
    if (!(await this.draw())) return;
    this.camera.fit(this.picture.layout, LEAST_READABLE_ZOOM);
    this.select(this.selected);
  }

  onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const item = this.itemAt(event);
    const pans = item === null || event.shiftKey;
    const act = (pans && this.panKeys()[event.key]) || this.cameraKeys()[event.key] ||
      (item !== null && this.itemKeys(item)[event.key]);
    if (!act) return;
    event.preventDefault();
    act();
  }

  panKeys() {
    return {
      ArrowLeft: () => this.camera.panBy(PAN_STEP, 0),
      ArrowRight: () => this.camera.panBy(-PAN_STEP, 0),
      ArrowUp: () => this.camera.panBy(0, PAN_STEP),
      ArrowDown: () => this.camera.panBy(0, -PAN_STEP),
    };
  }

  cameraKeys() {
    return {
      "+": () => this.camera.zoomBy(ZOOM_STEP),
      "-": () => this.camera.zoomBy(1 / ZOOM_STEP),
      0: () => this.camera.fit(this.picture.layout),
      "/": () => this.search.field.focus(),
    };
  }

  itemKeys(item) {
    const order = [...this.picture.elements.keys()];
    const place = order.indexOf(item);
    const activate = () => this.stage.group(item) && this.toggle(item);
    return {
      Enter: activate,
      " ": activate,
      Escape: () => this.leave(item),
      ArrowDown: () => this.step(this.shownNeighbour(this.stage.targets(item), item)),
      ArrowUp: () => this.step(this.shownNeighbour(this.stage.sources(item), item)),
      ArrowRight: () => this.step(order[place + 1]),
      ArrowLeft: () => this.step(order[place - 1]),
      Home: () => this.step(order[0]),
      End: () => this.step(order[order.length - 1]),
    };
  }

  /** The first visible item among neighbours that is another than ``item``. */
  shownNeighbour(neighbours, item) {
    return neighbours.map((each) => this.scene.shownFor(each)).find((each) => each !== item);
  }

  step(item) {
    if (item === undefined) return;
    this.camera.show(this.picture.boxes.get(item));
    this.focus(item);
  }

  /** Closes the group around an item; around what the outermost group holds there is none. */
  leave(item) {
    const outer = this.stage.parent(item);
    if (outer === this.stage.root) return;
    this.focus(outer);
    this.toggle(outer);
  }
}

/** Starts each view when it comes into sight, and the others while the page rests, since paper shows all. */
function setUpGraphViews() {
  const source = document.getElementById("graph-layout-source");
  if (!source) return;
  const layouter = new GraphLayouter(source.textContent);
  const waiting = new Set(document.querySelectorAll(".graph-view"));
  const start = (element) => {
    watcher.unobserve(element);
    if (waiting.delete(element)) startGraphView(element, layouter);
  };
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) start(target);
  }, { rootMargin: "200px" });
  for (const element of waiting) {
    element.hidden = false;
    watcher.observe(element);
  }
  const whenAtRest = window.requestIdleCallback ?? ((act) => setTimeout(act, 200));
  const startNext = () => {
    const [next] = waiting;
    if (next === undefined) return;
    start(next);
    whenAtRest(startNext);
  };
  window.addEventListener("load", () => whenAtRest(startNext));
}

async function startGraphView(element, layouter) {
  try {
    const data = await GraphData.unpack(element.querySelector(".graph-data").textContent);
    new GraphView(element, data, layouter);
  } catch (error) {
    element.querySelector(".graph-status").textContent = `The graph cannot be shown: ${error.message}`;
  }
}

setUpGraphViews();
