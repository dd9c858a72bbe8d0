// An application that tells the parts of a form, and sets two cookies: see tests/languages/multipart.json.

import { App, Response } from "modelhost-guest";

const told = ({ name, filename, contentType, body }) => ({
  name, filename: filename ?? null, type: contentType, size: body.length, sum: body.reduce((sum, byte) => sum + byte, 0),
});

export const { init, operations, respond } = new App()
  .init(() => {})
  .post("/form", (request) => ({ parts: request.multipart().map(told) }))
  .get("/cookies", () => new Response("baked", { headers: { "set-cookie": ["a=1", "b=2"] } }))
  .get("/wrong", () => new Response("", { headers: { "x-a": { b: 1 } } }))
  .exports();
