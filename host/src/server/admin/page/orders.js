// Orders with a confirmation: what is going to happen is said in a dialog, and the answer where a screen reader hears it.

import { useEffect, useRef, useState } from "./hooks.js";
import { order as give } from "./api.js";
import { html, short } from "./view.js";

/** The orders that fit the state of an endpoint. Each says what it does, and how it is given. */
export function ordersOf(endpoint) {
  const { name, previous, trial, digest } = endpoint;
  const orders = [];
  if (trial) {
    orders.push({
      id: "promote",
      title: "Promote trial",
      text: `Handler ${short(trial.digest)} answers all requests of ${name} from now on, in place of ${short(digest)}.`,
      method: "POST",
      path: "plugin/candidate/promote",
      withNote: true,
    });
    orders.push({
      id: "drop",
      title: "Drop trial",
      text: `The trial of handler ${short(trial.digest)} ends. ${short(digest)} answers all requests.`,
      method: "DELETE",
      path: "plugin/candidate",
      withNote: true,
      danger: true,
    });
  }
  if (previous) {
    orders.push({
      id: "rollback",
      title: "Roll back",
      text:
        `Handler and models of generation ${previous.generation} (${short(previous.digest)}) serve ${name} again, ` +
        `in place of generation ${endpoint.generation} (${short(digest)}).`,
      method: "POST",
      path: "rollback",
      withNote: true,
      danger: true,
    });
  }
  orders.push({
    id: "reload",
    title: "Reload",
    text: `Handler and models of ${name} are read again from their files. If they do not fit, what serves now goes on.`,
    method: "POST",
    path: "reload",
    withNote: true,
  });
  return orders;
}

/** The order that loads or unloads a model. */
export function modelOrder(endpoint, model) {
  const path = `models/${encodeURIComponent(model.name)}`;
  return model.loaded
    ? {
        id: "unload",
        title: `Unload model ${model.name}`,
        text: `Requests of ${endpoint.name} that need the model ${model.name} are refused until it is loaded again.`,
        method: "POST",
        path: `${path}/unload`,
        danger: true,
      }
    : {
        id: "load",
        title: `Load model ${model.name}`,
        text: `The model ${model.name} is loaded from its files and serves ${endpoint.name}.`,
        method: "POST",
        path: `${path}/load`,
      };
}

/** The dialog about `order` of the endpoint `name`; `done` gets what became of it, or nothing if it was not given. */
export function Confirm({ name, order, done }) {
  const dialog = useRef(null);
  const [note, setNote] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current.showModal(), []);
  const confirm = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const { outcome, generation } = await give(name, { ...order, note: order.withNote && note });
      const serves = generation === undefined ? "" : `; generation ${generation} serves`;
      done({ text: `${order.title}: ${outcome}${serves}.` });
    } catch (error) {
      const step = error.step ? ` (step: ${error.step})` : "";
      done({ text: `${order.title} was refused${step}: ${error.message}`, failed: true });
    }
  };
  return html`<dialog ref=${dialog} aria-labelledby="confirm-title" onCancel=${() => done(null)}>
    <form onSubmit=${confirm}>
      <h2 id="confirm-title">${order.title}?</h2>
      <p>${order.text}</p>
      ${order.withNote &&
      html`<label>Reason, for the history
        <input name="note" maxlength="200" value=${note} onInput=${(event) => setNote(event.target.value)} /></label>`}
      <div class="buttons">
        <button type="button" onClick=${() => done(null)} disabled=${busy}>Cancel</button>
        <button type="submit" class=${order.danger ? "danger" : "primary"} disabled=${busy}>${order.title}</button>
      </div>
    </form>
  </dialog>`;
}
