// The page with what the group thinks; it follows the answers.
import { base, call, get, make, percent, toast } from "./api.js";

const titles = new Map((await get(base)).items.map((item) => [item.id, item.title]));
const name = (id) => make("b", {}, titles.get(id) ?? id);
let etag = null;
let at = 0;

function row(one, n, groups) {
  const place = (rank) => `${n > 1 ? ((rank - 1) / (n - 1)) * 100 : 50}%`;
  const span = make("span", { class: "span" });
  span.style.left = place(one.rank_low);
  span.style.right = `${100 - parseFloat(place(one.rank_high))}%`;
  const dot = make("span", { class: "dot" });
  dot.style.left = place(one.rank);
  const same = one.rank_low === one.rank_high;
  const told = same ? `rank ${one.rank_low}` : `rank ${one.rank_low} to ${one.rank_high}`;
  const first = groups[one.rank - 2] !== one.group || one.group === 0 ? one.rank === 1 || one.group !== 0 : false;
  const last = groups[one.rank] !== one.group;
  return make("li", { class: `${first ? "first " : ""}${last ? "last " : ""}${one.group === 1 && groups.at(-1) > 1 ? "top" : ""}` },
    make("span", { class: "n" }, String(one.rank)), make("span", {}, name(one.item)),
    make("span", { class: "rail", role: "img", "aria-label": told }, span, dot),
    make("span", { class: "small" }, one.favourite >= 0.005 ? `${percent(one.favourite)} favourite` : told));
}

function verdict(found) {
  if (!found.items.length) return ["Nobody has put one thing before another yet."];
  const top = found.items.filter((one) => one.group === found.items[0].group && one.group);
  if (top.length === 1) return [name(top[0].item), " is the group’s favourite."];
  const sure = found.items[0].favourite;
  if (sure < 0.5 && top.length !== 2) {
    const most = Math.max(...found.items.map((one) => one.favourite));
    return [name(found.items[0].item), ` is ahead, but which is the favourite is open: none has a probability above ${percent(most)}.`];
  }
  return [name(found.items[0].item), ` leads, with a probability of ${percent(sure)} to be the favourite`,
    top.length > 1 && top.length < found.items.length ? `; ${top.length} of ${found.items.length} are still in the running.` : "."];
}

function section(id, lines) {
  const place = document.getElementById(id);
  place.hidden = !lines.length;
  place.querySelector("div").replaceChildren(...lines.map((line) => make("p", {}, ...line)));
}

const list = (ids) => ids.flatMap((id, n) => (n ? [", ", name(id)] : [name(id)]));

function bars(found) {
  const many = found.items.length && found.items[0].group === 0;
  return many ? "A bar shows where an item may stand: its true rank lies inside with a probability of 90 %. With so many items each bar is for itself, and no blocks are shown."
    : "A bar shows where an item may stand: its true rank lies inside with a probability of 90 % for all bars together. Items of one block cannot be told apart by what was said so far.";
}

function draw(found) {
  document.getElementById("bars").textContent = bars(found);
  const groups = found.items.map((one) => one.group);
  document.getElementById("verdict").replaceChildren(...verdict(found));
  document.getElementById("order").replaceChildren(...found.items.map((one) => row(one, found.items.length, groups)));
  section("you", found.you ? [
    ...(found.you.agree === null ? [] : [[`You agree with the group on ${percent(found.you.agree)} of the pairs that you ordered.`]]),
    ...found.you.items.map((one) => [name(one.item), one.yours < one.group ? " — you like it more: " : " — you like it less: ", `${+one.yours.toFixed(1)} for you, ${one.group} for the group, among what you ranked.`]),
  ] : []);
  section("tastes", found.communities.map((one, n) => [`Taste ${n + 1}, ${percent(one.share)} of the people: more than others for `, ...list(one.items), "."]));
  section("close", found.close.map((one) => [name(one.item), " before ", name(one.other), `: ${percent(one.probability)} sure`]));
  section("cycles", found.cycles.map((cycle) => ["Majorities go in circles among ", ...list(cycle), ": whichever wins, another is preferred to it."]));
  at = Date.now() - found.age * 1000;
  meta(found);
}

let last = null;
function meta(found = last) {
  last = found;
  if (!found) return;
  const old = Math.max(0, Math.round((Date.now() - at) / 1000));
  const age = old < 5 ? "now" : old < 120 ? `${old} s ago` : `${Math.round(old / 60)} min ago`;
  const live = make("span", { class: `live${found.state === "open" && connected ? " on" : ""}` });
  document.getElementById("meta").replaceChildren(live, `${found.people} ${found.people === 1 ? "person" : "people"}, ${found.answers} answers, worked out ${age}${found.state === "closed" ? "; the poll is closed" : connected ? "; live" : ""}. `);
}

let wanted = 0;
let again;
async function load() {
  const found = await call("GET", `${base}/result`, undefined, etag ? { "If-None-Match": etag } : {});
  if (found) {
    etag = found.etag;
    draw(found.body);
  }
  clearTimeout(again); // the result of a busy poll is some seconds old
  if (last.as_of < wanted) again = setTimeout(() => load().catch(() => {}), 2000);
}

let connected = false;
const source = new EventSource(`${base}/events`);
source.addEventListener("change", (event) => {
  connected = true;
  wanted = JSON.parse(event.data).as_of;
  load().catch(() => {});
});
source.addEventListener("error", () => { connected = false; meta(); });
setInterval(() => meta(), 5000);
document.getElementById("print").addEventListener("click", () => print());
document.getElementById("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    toast("The link is copied.");
  } catch { toast(location.href, 20); }
});
await load();
document.body.dataset.ready = "yes";
