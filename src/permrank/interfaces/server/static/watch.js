// The page of one poll's organiser.
import { base, call, get, make, post, toast } from "./api.js";

let state = document.body.dataset.state;
let after = "";
const toggle = document.getElementById("toggle");
const people = document.getElementById("people");

let wanted = 0;
let again;
async function counts() {
  const found = await get(`${base}/result`);
  clearTimeout(again); // the result of a busy poll is some seconds old
  if (found.as_of < wanted) again = setTimeout(() => counts().catch(() => {}), 2000);
  state = found.state;
  document.getElementById("n-people").textContent = found.people;
  document.getElementById("n-answers").textContent = found.answers;
  document.getElementById("now").textContent = state;
  toggle.textContent = state === "open" ? "Close the poll" : "Open it again";
}

const pending = "Erased. It is still in the file on the disk, and leaves it as soon as nobody reads an older state.";

function row(person) {
  const remove = async () => {
    if (!confirm(`Erase all that ${person.name ?? "this person"} has said?`)) return;
    if ((await call("DELETE", `${base}/people/${person.id}`)).body.pending) toast(pending, 8);
    await load();
  };
  return make("li", {}, make("span", {}, person.name ?? "without a name"),
    make("span", { class: "small" }, `${person.answers} ${person.answers === 1 ? "answer" : "answers"}`),
    make("button", { class: "button quiet aside", type: "button", "aria-label": `Erase ${person.name ?? person.id}`, onclick: tried(remove) }, "Erase"));
}

async function load(more = false) {
  const found = await get(`${base}/people?limit=50&after=${more ? after : ""}`);
  if (!more) people.replaceChildren();
  people.append(...found.people.map(row));
  after = found.next ?? "";
  document.getElementById("more").hidden = !found.next;
  await counts();
}

const tried = (work) => async (event) => {
  event?.preventDefault();
  try { await work(event); } catch (problem) { toast(problem.message, 8); }
};

toggle.addEventListener("click", tried(async () => {
  await call("PATCH", base, { state: state === "open" ? "closed" : "open" });
  await counts();
}));
document.getElementById("more").addEventListener("click", tried(() => load(true)));
document.getElementById("delete").addEventListener("click", tried(async () => {
  if (!confirm("Delete the poll and all answers?")) return;
  if ((await call("DELETE", base)).body.pending) alert(pending);
  location.href = "/admin";
}));
document.getElementById("key").addEventListener("submit", tried(async (event) => {
  const { role, name } = event.target.elements;
  const made = await post(`${base}/keys`, { role: role.value, name: name.value.trim() || null });
  const address = new URL(`/join/${made.key}`, location.href).href;
  document.getElementById("links").prepend(make("li", {}, make("b", {}, `${role.selectedOptions[0].textContent} ${name.value}`), make("code", {}, address)));
  name.value = "";
}));
new EventSource(`${base}/events`).addEventListener("change", (event) => {
  wanted = JSON.parse(event.data).as_of;
  load().catch(() => {});
});
await load();
document.body.dataset.ready = "yes";
