// Requests to this server, and what is said to the person.
const token = document.querySelector('meta[name="csrf"]').content;
export const poll = document.body.dataset.poll;

export class Problem extends Error {
  constructor(status, body) {
    super([body.detail, body.remedy].filter(Boolean).join("; "));
    this.status = status;
    this.field = body.field;
  }
}

export async function call(method, path, body, headers = {}, tries = 3) {
  const options = { method, headers: { "X-CSRF-Token": token, ...headers }, credentials: "same-origin" };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const response = await fetch(path, options);
  if (response.status === 304) return null;
  if (method === "GET" && [429, 503].includes(response.status) && tries > 1) { // the server has much to do
    const seconds = Number(response.headers.get("retry-after")) || 1;
    await new Promise((done) => setTimeout(done, 1000 * Math.min(seconds, 10)));
    return call(method, path, body, headers, tries - 1);
  }
  const text = await response.text();
  const isJson = (response.headers.get("content-type") || "").includes("json");
  const found = isJson && text ? JSON.parse(text) : {};
  if (!response.ok) throw new Problem(response.status, found);
  return { body: found, etag: response.headers.get("etag") };
}

export const get = async (path) => (await call("GET", path)).body;
export const post = async (path, body, headers) => (await call("POST", path, body, headers)).body;
export const base = `/v1/polls/${poll}`;

export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// An element with attributes and children; text is only ever text.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function announce(text) {
  document.getElementById("said").textContent = text;
}

let hiding;
export function toast(text, seconds = 4) {
  const place = document.getElementById("toast");
  place.textContent = text;
  place.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => { place.hidden = true; }, seconds * 1000);
}

// What is kept in this browser; a browser that keeps nothing is no error.
export const kept = {
  get(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(`permrank:${poll ?? "model"}:${name}`)) ?? otherwise;
    } catch { return otherwise; }
  },
  set(name, value) {
    try {
      localStorage.setItem(`permrank:${poll ?? "model"}:${name}`, JSON.stringify(value));
    } catch { /* private windows */ }
  },
};

export const percent = (share) => (share > 0 && share < 0.005 ? "<1 %" : share > 0.995 && share < 1 ? ">99 %" : `${Math.round(share * 100)} %`);
