// The admin API as the page calls it. The key lives in this module's memory alone: a reload of the page forgets it.

let key = null;

/** A refusal: its text, its status, and the step at which an order ended. */
export class Refusal extends Error {
  constructor(status, { error, step }) {
    super(error ?? `the server answered ${status}`);
    this.status = status;
    this.step = step;
  }
}

export function setKey(text) {
  key = text || null;
}

export function hasKey() {
  return key !== null;
}

async function call(method, path) {
  const headers = key === null ? {} : { authorization: `Bearer ${key}` };
  let reply;
  try {
    reply = await fetch(path, { method, headers, cache: "no-store", credentials: "omit" });
  } catch {
    throw new Refusal(0, { error: "the server does not answer" });
  }
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Refusal(reply.status, body);
  return body;
}

const endpointPath = (name) => `admin/v1/endpoints/${encodeURIComponent(name)}`;

export const endpoints = async () => (await call("GET", "admin/v1/endpoints")).endpoints;
export const endpoint = (name) => call("GET", endpointPath(name));
export const timeline = (name) => call("GET", `${endpointPath(name)}/timeline`);
export const trial = (name) => call("GET", `${endpointPath(name)}/plugin/candidate`);

export async function logs(name, level) {
  const query = new URLSearchParams({ endpoint: name, level, limit: "200" });
  return (await call("GET", `admin/v1/logs?${query}`)).lines;
}

/** Gives an order about an endpoint, with a note for its history where the route takes one. */
export function order(name, { method, path, note }) {
  const query = note ? `?${new URLSearchParams({ note })}` : "";
  return call(method, `${endpointPath(name)}/${path}${query}`);
}
