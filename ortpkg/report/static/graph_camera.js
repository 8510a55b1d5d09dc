/** Zoom and pan of a picture: by wheel, fingers, dragging and keys. */
"use strict";

const LEAST_ZOOM = 0.02;
const MOST_ZOOM = 3;
const ZOOM_STEP = 1.25;
const PAN_STEP = 60;
/** Pixels by which a pointer has to move before it drags. */
const DRAG_DISTANCE = 4;

/** Which part of a picture is seen, and how large. */
class GraphCamera {
  /**
   * @param {SVGSVGElement} svg what is looked at
   * @param {SVGGElement} content what is moved in it
   */
  constructor(svg, content) {
    this.svg = svg;
    this.content = content;
    this.x = 0;
    this.y = 0;
    this.zoom = 1;
    this.pointers = new Map();
    this.hasDragged = false;
    svg.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    svg.addEventListener("pointerdown", (event) => this.onPointerDown(event));
    svg.addEventListener("pointermove", (event) => this.onPointerMove(event));
    for (const name of ["pointerup", "pointercancel"]) {
      svg.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    }
    // A click that ends a drag chooses nothing.
    svg.addEventListener("click", (event) => this.hasDragged && event.stopPropagation(), true);
  }

  get size() {
    const { width, height } = this.svg.getBoundingClientRect();
    return { width, height };
  }

  apply() {
    this.content.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.zoom})`);
  }

  /** Shows the whole picture; where that would be too small to read, its upper part. */
  fit({ width, height }, leastZoom = 0) {
    const room = this.size;
    const whole = Math.min(room.width / width, room.height / height, 1);
    const zoom = Math.max(whole, Math.min(leastZoom, room.width / width));
    this.zoom = Math.max(zoom, LEAST_ZOOM);
    this.x = (room.width - width * this.zoom) / 2;
    this.y = Math.max((room.height - height * this.zoom) / 2, 0);
    this.apply();
  }

  /** Has the whole picture fill its element, whatever that measures, for printing. */
  fillPaper({ width, height }) {
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.content.removeAttribute("transform");
  }

  /** Shows again what was seen before. */
  leavePaper() {
    this.svg.removeAttribute("viewBox");
    this.apply();
  }

  /** Zooms, with the place (x, y) of the window staying where it is; the middle by default. */
  zoomBy(factor, place = this.middle()) {
    const zoom = Math.min(Math.max(this.zoom * factor, LEAST_ZOOM), MOST_ZOOM);
    this.x = place.x - ((place.x - this.x) * zoom) / this.zoom;
    this.y = place.y - ((place.y - this.y) * zoom) / this.zoom;
    this.zoom = zoom;
    this.apply();
  }

  panBy(x, y) {
    this.x += x;
    this.y += y;
    this.apply();
  }

  /** Where a box of the picture is seen. */
  seen({ x, y }) {
    return { x: x * this.zoom + this.x, y: y * this.zoom + this.y };
  }

  /** Moves the picture so that the box's corner is seen at a place. */
  pin(box, place) {
    const now = this.seen(box);
    this.panBy(place.x - now.x, place.y - now.y);
  }

  /** Brings a box into the window, its middle where it was not seen; large ones by their top. */
  show(box, leastZoom = 0) {
    if (this.zoom < leastZoom) this.zoomBy(leastZoom / this.zoom);
    const room = this.size;
    const { x, y } = this.seen(box);
    const [width, height] = [box.width * this.zoom, Math.min(box.height * this.zoom, room.height / 2)];
    const isSeen = x >= 0 && y >= 0 && x + width <= room.width && y + height <= room.height;
    if (isSeen) return;
    this.panBy(room.width / 2 - x - width / 2, room.height / 2 - y - height / 2);
  }

  middle() {
    const { width, height } = this.size;
    return { x: width / 2, y: height / 2 };
  }

  placeOf(event) {
    const { left, top } = this.svg.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  /** Zooms with Ctrl, as pinching on a pad does, or once the graph is in use; else the page scrolls. */
  onWheel(event) {
    if (!event.ctrlKey && !this.svg.contains(document.activeElement)) return;
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 20 : 1;
    this.zoomBy(Math.exp((-event.deltaY * lines) / (event.ctrlKey ? 120 : 400)), this.placeOf(event));
  }

  onPointerDown(event) {
    if (event.button > 0) return;
    if (!this.pointers.size) this.hasDragged = false;
    this.pointers.set(event.pointerId, { start: this.placeOf(event), ...this.placeOf(event) });
  }

  onPointerMove(event) {
    const pointer = this.pointers.get(event.pointerId);
    if (!pointer) return;
    const place = this.placeOf(event);
    const distance = Math.hypot(place.x - pointer.start.x, place.y - pointer.start.y);
    if (!this.hasDragged && distance < DRAG_DISTANCE) return;
    if (!this.hasDragged) this.svg.setPointerCapture(event.pointerId);
    this.hasDragged = true;
    if (this.pointers.size === 2) this.pinch(event.pointerId, place);
    this.panBy((place.x - pointer.x) / this.pointers.size, (place.y - pointer.y) / this.pointers.size);
    Object.assign(pointer, place);
  }

  /** Zooms by how much two fingers part. */
  pinch(id, place) {
    const own = this.pointers.get(id);
    const [[, other]] = [...this.pointers].filter(([key]) => key !== id);
    const before = Math.hypot(own.x - other.x, own.y - other.y);
    const after = Math.hypot(place.x - other.x, place.y - other.y);
    if (before > 0) this.zoomBy(after / before, { x: (place.x + other.x) / 2, y: (place.y + other.y) / 2 });
  }
}
