// The page where people rank.
import { base, get, kept, toast } from "./api.js";
import { Board } from "./board.js";
import { put } from "./outbox.js";

const form = document.getElementById("send");
const stateLine = document.getElementById("state");
addEventListener("sent", () => { stateLine.textContent = "sent"; });
const known = await get(base);
const items = new Map(known.items.map((item) => [item.id, item]));
const ids = [...items.keys()];

function shuffled(list) {
  const mixed = [...list];
  for (let at = mixed.length - 1; at > 0; at -= 1) {
    const other = Math.floor(Math.random() * (at + 1));
    [mixed[at], mixed[other]] = [mixed[other], mixed[at]];
  }
  return mixed;
}

// What was being made in this browser, else what was sent before, else nothing; in an order of the pile by chance.
async function start() {
  const draft = kept.get("draft", null);
  const order = draft?.order?.filter((id) => items.has(id)) ?? shuffled(ids);
  let tiers = draft?.tiers;
  if (!tiers && known.person) tiers = (await get(`${base}/answers/mine`)).ranking;
  tiers = (tiers ?? []).map((tier) => tier.filter((id) => items.has(id))).filter((tier) => tier.length);
  const ranked = new Set(tiers.flat());
  return { tiers, pile: [...order, ...ids.filter((id) => !order.includes(id))].filter((id) => !ranked.has(id)) };
}

function shown(state) {
  document.getElementById("empty").hidden = state.tiers.length > 0;
  form.querySelector("[type=submit]").disabled = !state.tiers.length || known.state !== "open";
}

const board = new Board({
  tiers: document.getElementById("tiers"), pile: document.getElementById("pile"), items, state: await start(),
  changed(state) {
    kept.set("draft", { tiers: state.tiers, order: [...state.pile, ...state.tiers.flat()] });
    stateLine.textContent = "not sent yet";
    shown(state);
  },
});
shown(board.state);
if (known.person) {
  document.getElementById("named").hidden = true;
  if (known.name) stateLine.textContent = `you are ${known.name}`;
}
document.getElementById("undo").addEventListener("click", () => board.undo());

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  try {
    await put({ kind: "tiers", ranking: board.state.tiers, shown: [...board.state.tiers.flat(), ...board.state.pile] },
      form.elements.name.value.trim());
    stateLine.textContent = "sent; change it and send again whenever you like";
    document.getElementById("named").hidden = true;
    toast("Thank you. Your ranking counts.");
  } catch (problem) {
    const offline = problem.status === undefined;
    stateLine.textContent = offline ? "no connection: it is kept here, and sent as soon as there is one" : "not sent";
    toast(offline ? stateLine.textContent : problem.message, 8);
  }
  shown(board.state);
});
document.body.dataset.ready = "yes";
