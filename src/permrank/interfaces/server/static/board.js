// A ranking in tiers beside a pile of what is left out, as values; then the same on the page, to be dragged.
import { announce, make } from "./api.js";

export const without = (state, id) => ({
  tiers: state.tiers.map((tier) => tier.filter((one) => one !== id)).filter((tier) => tier.length),
  pile: state.pile.filter((one) => one !== id),
});

// Where an item is: {tier, tied} or {pile}.
export function find(state, id) {
  const tier = state.tiers.findIndex((one) => one.includes(id));
  return tier < 0 ? { pile: state.pile.indexOf(id) } : { tier, tied: state.tiers[tier].length > 1 };
}

// Targets: {before: id of a tier's member or null for the end}, {join: id}, {pile: true}.
export function moved(state, id, target) {
  const anchor = target.before ?? target.join;
  if (anchor === id) return state;
  const rest = without(state, id);
  if (target.pile) return { tiers: rest.tiers, pile: [...rest.pile, id] };
  const at = anchor === null || anchor === undefined ? -1 : rest.tiers.findIndex((tier) => tier.includes(anchor));
  const tiers = rest.tiers.map((tier) => [...tier]);
  if (target.join !== undefined && at >= 0) tiers[at].push(id);
  else tiers.splice(at < 0 ? tiers.length : at, 0, [id]);
  return { tiers, pile: rest.pile };
}

// One step of the keyboard: through ties, so that every order with ties can be reached.
export function stepped(state, id, key) {
  const here = find(state, id);
  const inPile = here.tier === undefined;
  if (key === "ArrowRight") return inPile ? state : moved(state, id, { pile: true });
  if (inPile) return key === "ArrowLeft" || key === "Enter" ? moved(state, id, { before: null }) : state;
  const { tiers } = state;
  const others = tiers[here.tier].filter((one) => one !== id);
  if (key === "Home") return moved(state, id, { before: tiers[0][0] === id ? tiers[0][1] ?? tiers[1]?.[0] : tiers[0][0] });
  if (key === "End") return moved(state, id, { before: null });
  if (key === "ArrowUp") {
    if (here.tied) return moved(state, id, { before: others[0] });
    return here.tier > 0 ? moved(state, id, { join: tiers[here.tier - 1][0] }) : state;
  }
  if (key === "ArrowDown") {
    if (here.tied) return moved(state, id, { before: tiers[here.tier + 1]?.[0] ?? null });
    return here.tier < tiers.length - 1 ? moved(state, id, { join: tiers[here.tier + 1][0] }) : state;
  }
  return state;
}

const DOTS = "M4 3a1.6 1.6 0 1 0 0 .1zM4 10a1.6 1.6 0 1 0 0 .1zM4 17a1.6 1.6 0 1 0 0 .1zM10 3a1.6 1.6 0 1 0 0 .1zM10 10a1.6 1.6 0 1 0 0 .1zM10 17a1.6 1.6 0 1 0 0 .1z";

function dots() {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 13 20");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", DOTS);
  svg.append(path);
  return svg;
}

export class Board {
  constructor({ tiers, pile, items, state, changed, off = "put aside" }) {
    Object.assign(this, { tiersPlace: tiers, pilePlace: pile, items, state, changed, off });
    this.past = [];
    this.draw();
  }

  change(next, id) {
    if (next === this.state || JSON.stringify(next) === JSON.stringify(this.state)) return;
    this.past.push(this.state);
    this.state = next;
    this.draw(id);
    if (id) announce(this.where(id));
    this.changed(this.state);
  }

  undo() {
    if (!this.past.length) return;
    this.state = this.past.pop();
    this.draw();
    announce("Undone");
    this.changed(this.state);
  }

  title(id) { return this.items.get(id)?.title ?? String(id); }

  where(id) {
    const here = find(this.state, id);
    if (here.tier === undefined) return `${this.title(id)}: not ranked`;
    const before = this.state.tiers.slice(0, here.tier).reduce((sum, tier) => sum + tier.length, 0);
    const n = this.state.tiers.reduce((sum, tier) => sum + tier.length, 0);
    const others = this.state.tiers[here.tier].filter((one) => one !== id).map((one) => this.title(one));
    return `${this.title(id)}: place ${before + 1} of ${n}${others.length ? `, tied with ${others.join(" and ")}` : ""}`;
  }

  draw(focused) {
    let place = 1;
    this.tiersPlace.replaceChildren(...this.state.tiers.map((tier) => {
      const cards = make("ul", { class: "cards" }, ...tier.map((id) => this.card(id, true)));
      const row = make("li", { class: `tier${tier.length > 1 ? " tied" : ""}` },
        make("span", { class: "place", "aria-hidden": "true" }, String(place)), cards);
      row.tier = tier;
      place += tier.length;
      return row;
    }));
    this.pilePlace?.replaceChildren(...this.state.pile.map((id) => this.card(id, false)));
    if (focused !== undefined) this.grip(focused)?.focus();
  }

  grip(id) {
    return [...document.querySelectorAll(".grip")].find((grip) => grip.item === id);
  }

  card(id, ranked) {
    const item = this.items.get(id) ?? { title: String(id) };
    const handle = make("span", { class: "handle" }, dots());
    const picture = item.picture ? make("img", { src: item.picture, alt: "" }) : null;
    const words = make("span", { class: "words" }, make("b", {}, item.title), item.about ? make("span", {}, item.about) : null);
    const grip = make("button", { class: "grip", type: "button", "aria-label": this.where(id), "aria-describedby": "how" },
      handle, picture, words);
    grip.item = id;
    grip.addEventListener("keydown", (event) => this.key(event, id));
    grip.addEventListener("click", () => { if (!ranked && !this.justDragged) this.change(stepped(this.state, id, "Enter"), id); });
    grip.addEventListener("pointerdown", (event) => this.grab(event, id));
    const card = make("li", { class: "card" }, grip);
    if (ranked) {
      const away = () => this.change(this.pilePlace ? moved(this.state, id, { pile: true }) : without(this.state, id));
      card.append(make("button", { class: "off", type: "button", "aria-label": `${item.title}: ${this.off}`, onclick: away }, "✕"));
    }
    return card;
  }

  key(event, id) {
    if (!["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const next = stepped(this.state, id, event.key);
    if (next === this.state) announce(this.where(id));
    else this.change(this.pilePlace ? next : { ...next, pile: [] }, id);
  }

  // Dragging, by mouse anywhere on a card and by finger at its handle: elsewhere a finger scrolls.

  grab(event, id) {
    if (event.button !== 0 || (event.pointerType !== "mouse" && !event.target.closest(".handle"))) return;
    const card = event.target.closest(".card");
    const box = card.getBoundingClientRect();
    const start = { x: event.clientX, y: event.clientY };
    const offset = { x: start.x - box.left, y: start.y - box.top };
    let ghost = null;
    let target = null;
    const move = (e) => {
      if (e.pointerId !== event.pointerId) return;
      if (!ghost && Math.hypot(e.clientX - start.x, e.clientY - start.y) < 6) return;
      if (!ghost) {
        ghost = card.cloneNode(true);
        ghost.classList.add("ghost");
        ghost.setAttribute("aria-hidden", "true");
        ghost.style.width = `${box.width}px`;
        document.body.append(ghost);
        card.classList.add("dragged");
      }
      e.preventDefault();
      ghost.style.transform = `translate(${e.clientX - offset.x}px, ${e.clientY - offset.y}px)`;
      if (e.clientY < 70) scrollBy(0, -12);
      if (e.clientY > innerHeight - 90) scrollBy(0, 12);
      target = this.under(e.clientX, e.clientY, id);
    };
    const end = (e) => {
      if (e.pointerId !== event.pointerId) return;
      for (const [name, listener] of listeners) removeEventListener(name, listener, true);
      this.mark(null);
      ghost?.remove();
      card.classList.remove("dragged");
      this.justDragged = Boolean(ghost);
      setTimeout(() => { this.justDragged = false; }, 0);
      if (ghost && target && e.type === "pointerup") {
        const next = moved(this.state, id, target);
        this.change(this.pilePlace ? next : { ...next, pile: [] }, id);
      }
    };
    const listeners = [["pointermove", move], ["pointerup", end], ["pointercancel", end]];
    for (const [name, listener] of listeners) addEventListener(name, listener, { capture: true, passive: false });
  }

  under(x, y, id) {
    const inside = (element) => {
      const box = element.getBoundingClientRect();
      return x >= box.left - 8 && x <= box.right + 8 && y >= box.top && y <= box.bottom;
    };
    const pile = this.pilePlace?.closest("section");
    if (pile && inside(pile)) return this.mark(pile, "over", { pile: true });
    const rows = [...this.tiersPlace.querySelectorAll(".tier")];
    const section = this.tiersPlace.closest("section");
    if (!inside(section) && !rows.some(inside)) return this.mark(null);
    const others = (row) => row.tier.filter((one) => one !== id);
    for (const row of rows) {
      if (!others(row).length && rows.length > 1) continue;
      const box = row.getBoundingClientRect();
      const anchor = others(row)[0];
      if (anchor === undefined) continue;
      if (y < box.top + box.height * 0.3) return this.mark(row, "before", { before: anchor });
      if (y < box.bottom - box.height * 0.3) return this.mark(row, "join", { join: anchor });
    }
    return this.mark(rows.at(-1) ?? section, rows.length ? "after" : "over", { before: null });
  }

  mark(element, name, target = null) {
    for (const old of document.querySelectorAll(".before, .after, .join, .over")) old.classList.remove("before", "after", "join", "over");
    element?.classList.add(name);
    return target;
  }
}
