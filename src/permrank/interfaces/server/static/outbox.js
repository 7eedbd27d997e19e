// Answers wait here until the server has acknowledged them: a lost connection loses nothing, and none counts twice.
import { base, call, kept, newKey, poll } from "./api.js";

const LONGEST_PAUSE = 30; // seconds between attempts
let joined = null;
let sending = null;
let pause = 1;
let attempt;

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

const waiting = () => kept.get("outbox", []).length;

function flush() {
  sending = (sending ?? Promise.resolve()).catch(() => {}).then(sendAll);
  return sending;
}

// What may be otherwise the next time: no connection, a server that has trouble, or too many requests.
const passes = (status) => status === undefined || status >= 500 || status === 408 || status === 429;

async function sendAll() {
  const answers = kept.get("outbox", []);
  if (!answers.length || !poll) return;
  try {
    await join(kept.get("name", ""));
    await call("POST", `${base}/answers`, { answers }).catch((problem) => {
      if (!passes(problem.status) && ![401, 403].includes(problem.status)) drop(answers);
      throw problem;
    });
  } catch (problem) {
    if (passes(problem.status)) sendLater();
    throw problem;
  }
  drop(answers);
  pause = 1;
  dispatchEvent(new Event("sent"));
}

// The event "online" is about the interfaces of this device and says nothing of a server that is back, so attempts are
// repeated; at random times, or everybody's would come at once.
function sendLater() {
  pause = Math.min(2 * pause, LONGEST_PAUSE);
  clearTimeout(attempt);
  attempt = setTimeout(flushQuietly, 1000 * pause * (0.5 + Math.random() / 2));
}

function drop(answers) {
  const done = new Set(answers.map((answer) => answer.key));
  kept.set("outbox", kept.get("outbox", []).filter((answer) => !done.has(answer.key)));
}

const flushQuietly = () => flush().catch(() => {});
addEventListener("online", flushQuietly);
if (waiting()) flushQuietly();
