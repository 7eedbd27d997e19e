// Answers wait here until the server has acknowledged them: a lost connection loses nothing, and none counts twice.
import { base, call, kept, newKey, poll } from "./api.js";

let joined = null;
let sending = null;

export async function join(name) {
  if (joined) return;
  const known = (await call("GET", base)).body;
  if (!known.person) await call("POST", `${base}/people`, { name: name || null });
  joined = true;
}

export function put(answer, name) {
  kept.set("outbox", [...kept.get("outbox", []), { ...answer, key: newKey() }]);
  if (name !== undefined) kept.set("name", name);
  return flush();
}

export const waiting = () => kept.get("outbox", []).length;

export function flush() {
  sending = (sending ?? Promise.resolve()).catch(() => {}).then(sendAll);
  return sending;
}

async function sendAll() {
  const answers = kept.get("outbox", []);
  if (!answers.length || !poll) return;
  await join(kept.get("name", ""));
  try {
    await call("POST", `${base}/answers`, { answers });
  } catch (problem) {
    if (problem.status >= 400 && problem.status < 500 && ![401, 403, 408, 429].includes(problem.status)) drop(answers);
    throw problem;
  }
  drop(answers);
}

function drop(answers) {
  const done = new Set(answers.map((answer) => answer.key));
  kept.set("outbox", kept.get("outbox", []).filter((answer) => !done.has(answer.key)));
}

addEventListener("online", () => flush().catch(() => {}));
