// The page where people answer the question that tells most.
import { announce, base, get, kept, make, percent, toast } from "./api.js";
import { put } from "./outbox.js";

const items = new Map((await get(base)).items.map((item) => [item.id, item]));
const cards = document.getElementById("cards");
const four = document.getElementById("four");
let asked = null;
let best = null;
let turn = 0;

async function next() {
  const mine = ++turn;
  const question = await get(`${base}/question?kind=${four.getAttribute("aria-pressed") === "true" ? "best_worst" : "pair"}`);
  if (mine !== turn) return; // another kind of question was chosen meanwhile
  asked = question;
  best = null;
  draw();
}

function card(id, at) {
  const item = items.get(id);
  const many = asked.items.length > 2;
  return make("button", { class: "pick", type: "button", "aria-pressed": many ? String(best === id) : null, onclick: () => pick(id) },
    item.picture ? make("img", { src: item.picture, alt: "" }) : null, make("b", {}, item.title),
    item.about ? make("span", { class: "small" }, item.about) : null,
    many ? (best === id ? make("span", { class: "small" }, "best") : null) : make("span", { class: "small keys" }, at ? "press →" : "press ←"));
}

function draw() {
  const many = asked.items.length > 2;
  document.getElementById("ask").textContent = !asked.items.length ? "You have answered everything that could be asked."
    : many ? (best === null ? "Which of these is best?" : "And which is worst?") : "Which do you prefer?";
  cards.replaceChildren(...asked.items.map(card));
  document.getElementById("skip").hidden = !asked.items.length;
  document.getElementById("enough").hidden = !asked.enough;
  document.querySelector(".sofar").hidden = asked.answered === 0; // before, it would be what the others think
  document.getElementById("answered").textContent = asked.answered;
  document.getElementById("sure").value = asked.certainty;
  document.getElementById("percent").textContent = `${percent(asked.certainty)} of all pairs in the right order`;
  document.getElementById("order").replaceChildren(...asked.order.map((one, at) => make("li", {}, make("span", {}, items.get(one.item).title),
    at < asked.order.length - 1 ? make("span", { class: "small", title: "how sure it is before the next one" }, percent(one.before_next)) : null)));
}

async function pick(id) {
  if (asked.items.length === 2) {
    await answer({ kind: "pair", better: id, worse: asked.items.find((one) => one !== id) });
  } else if (best === null || best === id) {
    best = best === id ? null : id;
    draw();
    announce(best === null ? "Which of these is best?" : `${items.get(id).title} is best. Which is worst?`);
  } else {
    await answer({ kind: "best_worst", items: asked.items, best, worst: id });
  }
}

async function answer(said) {
  for (const button of cards.querySelectorAll("button")) button.disabled = true;
  try {
    await put({ ...said, shown: asked.items });
    await next();
    announce(asked.enough ? "This is enough." : `${asked.answered} answers, next question`);
    cards.querySelector("button")?.focus({ preventScroll: true });
  } catch (problem) {
    toast(problem.status === undefined ? "No connection; the answer is kept and sent later." : problem.message, 8);
    for (const button of cards.querySelectorAll("button")) button.disabled = false;
  }
}

document.getElementById("skip").addEventListener("click", () => answer({ kind: "skip", items: asked.items }));
four.addEventListener("click", () => {
  four.setAttribute("aria-pressed", String(four.getAttribute("aria-pressed") !== "true"));
  next();
});
four.hidden = items.size < 4;
document.getElementById("adjust").addEventListener("click", () => {
  const order = asked.order.map((one) => one.item);
  kept.set("draft", { tiers: order.map((id) => [id]), order: [...items.keys()] });
  location.href = `/p/${document.body.dataset.poll}`;
});
addEventListener("keydown", (event) => {
  if (asked?.items.length !== 2 || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "ArrowLeft") pick(asked.items[0]);
  if (event.key === "ArrowRight") pick(asked.items[1]);
});
await next();
document.body.dataset.ready = "yes";
