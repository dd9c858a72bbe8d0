// An application with a stream: each number is an event, sent while the next one is made.

import { App } from "modelhost-guest";

let label = "";

export const app = new App()
  .init((metadata: { label: string }) => void (label = metadata.label))
  .get("/label", () => ({ label }))
  .post("/stream", function* (request) {
    for (let number = 0; number < request.fields("to")[0]; number++) yield { number };
  });

export const { init, operations, respond } = app.exports();
