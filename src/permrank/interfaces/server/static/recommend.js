// A list of one's own, and what the model says would follow.
import { call, get, kept, make, post, toast } from "./api.js";
import { Board, moved } from "./board.js";

const items = new Map(kept.get("items", []));
const search = document.getElementById("search");
const hits = document.getElementById("hits");
let asked = 0;
let timer;

const board = new Board({
  tiers: document.getElementById("tiers"), pile: null, items, off: "remove",
  state: { tiers: kept.get("tiers", []), pile: [] },
  changed(state) {
    kept.set("tiers", state.tiers);
    kept.set("items", [...items].filter(([id]) => state.tiers.flat().includes(id)));
    later(recommend, 120);
  },
});

function later(work, wait) {
  clearTimeout(timer);
  timer = setTimeout(() => work().catch((problem) => toast(problem.message, 6)), wait);
}

async function recommend() {
  document.getElementById("empty").hidden = board.state.tiers.length > 0;
  const mine = (asked += 1);
  const found = await post("/v1/model/recommend", { ranking: board.state.tiers, k: 10, reasons: board.state.tiers.length > 0 });
  if (mine !== asked) return;
  document.getElementById("next").replaceChildren(...found.items.map((one) => make("li", {},
    make("b", {}, one.title), one.because ? make("span", { class: "small" }, one.because) : null)));
  const minutes = Math.round(found.age / 60);
  const age = minutes < 100 ? `${minutes} min` : minutes < 48 * 60 ? `${Math.round(minutes / 60)} hours` : `${Math.round(minutes / 1440)} days`;
  document.getElementById("age").textContent = `Version ${found.version} of the model, ${age} old.`;
}

async function look() {
  const text = search.value.trim();
  const found = text ? (await get(`/v1/model/items?limit=8&search=${encodeURIComponent(text)}`)).items : [];
  if (text !== search.value.trim()) return;
  const listed = new Set(board.state.tiers.flat());
  hits.replaceChildren(...found.filter((one) => !listed.has(one.item)).map((one) => make("li", {},
    make("button", { type: "button", onclick: () => add(one) }, one.title))));
}

function add(one) {
  items.set(one.item, { title: one.title });
  board.change(moved(board.state, one.item, { before: null }));
  search.value = "";
  hits.replaceChildren();
  search.focus();
}

search.addEventListener("input", () => look().catch((problem) => toast(problem.message, 6)));
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") hits.querySelector("button")?.click();
});
await call("GET", "/v1/model");
await recommend();
document.body.dataset.ready = "yes";
