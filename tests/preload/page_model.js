// SPDX-License-Identifier: Apache-2.0
// page_model.js INPUT: runs the script of the report's page with a small model of a browser's document. Prints all
// elements: [tag, attributes, text, tags and classes around it, tags of its children].
"use strict";
const input = JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"));
const REFLECTED = {tabIndex: "tabindex", className: "class", scope: "scope", title: "title", hidden: "hidden", id: "id", href: "href"};

class Element {
  constructor(tag) { Object.assign(this, {tag, attributes: {}, nodes: [], style: {}, dataset: {}, clientWidth: 1000}); }
  get children() { return this.nodes.filter(node => node instanceof Element); }
  get firstChild() { return this.nodes[0] || null; }
  get firstElementChild() { return this.children[0] || null; }
  get textContent() { return this.nodes.map(node => node instanceof Element ? node.textContent : node).join(""); }
  set textContent(text) { this.nodes = text === "" ? [] : [String(text)]; }
  append(...nodes) { nodes.forEach(node => this.nodes.push(node instanceof Element ? node : String(node))); }
  appendChild(node) { this.nodes.push(node); return node; }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  removeAttribute(name) { delete this.attributes[name]; }
  getBoundingClientRect() { return {top: 0}; }
  focus() {}
  getContext() { return new Proxy({measureText: () => ({width: 10})}, {get: (pen, name) => pen[name] || (() => {}), set: () => true}); }
}
for (const [property, name] of Object.entries(REFLECTED))
  Object.defineProperty(Element.prototype, property, {
    get() { return this.attributes[name] ?? ""; },
    set(value) { if (value === false || value === "") delete this.attributes[name]; else this.attributes[name] = String(value); }});

const root = new Element("html"), byId = {}, all = (node = root) => [node, ...node.children.flatMap(child => all(child))];
for (const [id, tag, attributes, around, text] of input.static) {
  byId[id] = Object.assign(new Element(tag), {attributes, textContent: text.trim()});
  (byId[around.filter(name => byId[name]).pop()] || root).append(byId[id]);
}
byId.data.textContent = input.data;
const SELECTED = {"main h2": node => node.tag === "h2", "main section": node => node.tag === "section", ".scroll[data-name]": node => node.dataset.name};
global.document = {getElementById: id => byId[id], createElement: tag => new Element(tag), documentElement: root,
  querySelectorAll: selector => all().filter(SELECTED[selector])};
global.window = {devicePixelRatio: 1, innerHeight: 800, scrollBy() {}};
global.getComputedStyle = () => ({getPropertyValue: () => "#000"});
global.matchMedia = () => ({});
(0, eval)(input.script);
/* What keys and clicks do must not fail either. */
const key = name => ({key: name, preventDefault() {}});
["ArrowUp", "Enter", "+", "-", "ArrowLeft", "Escape", "ArrowDown", "ArrowDown", "ArrowDown", "+", "+"].forEach(name => byId.chart.onkeydown(key(name)));
const told = byId.told.textContent;
byId.icicle.children.slice(0, 3).forEach(frame => ["ArrowDown", "ArrowRight", "Escape"].forEach(name => frame.onkeydown(key(name))));
byId["icicle-stalls"].onclick();
const made = [], print = (node, around) => {
  made.push([node.tag, node.attributes, node.textContent, around, node.children.map(child => child.tag)]);
  node.children.forEach(child => print(child, [...around, node.tag, ...node.className.split(" ")]));
};
print(root, []);
console.log(JSON.stringify({told, made}));
