// The page where polls are made.
import { get, make, post, toast } from "./api.js";

const form = document.getElementById("make");

export function link(title, path) {
  const address = new URL(path, location.href).href;
  return make("li", {}, make("b", {}, title), make("code", {}, address));
}

form.elements.file.addEventListener("change", async () => {
  const file = form.elements.file.files[0];
  if (file) form.elements.items.value = await file.text();
});

function itemsOf(text) {
  return text.split(/\r?\n/).map((line) => {
    const [title, ...about] = line.split(line.includes("\t") ? "\t" : ";");
    return { title: title.trim(), about: about.join(";").trim() };
  }).filter((item) => item.title);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { title, about, items, shows } = form.elements;
  try {
    const made = await post("/v1/polls", { title: title.value.trim(), about: about.value.trim(), items: itemsOf(items.value), shows: shows.value });
    document.getElementById("links").replaceChildren(link("To vote", `/join/${made.keys.vote}`),
      link("To look at the result", `/join/${made.keys.read}`), link("To administer", `/join/${made.keys.admin}`));
    document.getElementById("made").hidden = false;
    document.getElementById("made").scrollIntoView();
    form.reset();
    await list();
  } catch (problem) { toast(problem.message, 8); }
});

async function list() {
  const found = await get("/v1/polls?limit=200");
  document.getElementById("polls").replaceChildren(...found.polls.sort((a, b) => b.created - a.created).map((one) => make("li", {},
    make("a", { href: `/admin/${one.id}` }, one.title), make("span", { class: "tag" }, one.state),
    make("a", { class: "aside", href: `/p/${one.id}/result` }, "result"))));
}

await list();
document.body.dataset.ready = "yes";
