/** Has graphs laid out by a worker, so that the page never waits. */
"use strict";

/** One worker for all views of the page; it starts with the first one that is seen. */
class GraphLayouter {
  /** @param {string} source packed text of dagre and layout_worker.js */
  constructor(source) {
    this.source = source;
    this.waiting = new Map();
    this.number = 0;
    this.started = null;
  }

  /**
   * @param {object} root a LayoutGroup
   * @returns {Promise<object>} the picture: boxes, edges, width, height
   */
  async layout(root) {
    this.started ??= this.start();
    const worker = await this.started;
    const number = ++this.number;
    return new Promise((resolve, reject) => {
      this.waiting.set(number, { resolve, reject });
      worker.postMessage({ number, root });
    });
  }

  async start() {
    const text = await unpackText(this.source);
    const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    const worker = new Worker(address);
    worker.onmessage = ({ data }) => this.answer(data);
    worker.onerror = (event) => this.fail(event.message || "the worker could not be started");
    return worker;
  }

  answer({ number, picture, failure }) {
    const { resolve, reject } = this.waiting.get(number);
    this.waiting.delete(number);
    if (failure) reject(new Error(failure));
    else resolve(picture);
  }

  fail(message) {
    for (const { reject } of this.waiting.values()) reject(new Error(message));
    this.waiting.clear();
  }
}
