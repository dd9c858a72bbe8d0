// One endpoint: pictures of the last fifteen minutes, models, trial, history, faults and log.

import { useState } from "./hooks.js";
import * as api from "./api.js";
import { Charts } from "./charts.js";
import { Confirm, modelOrder, ordersOf } from "./orders.js";
import { Trial } from "./trial.js";
import { states } from "./overview.js";
import { bytes, clock, duration, html, minute, number, percent, short, usePoll } from "./view.js";

/** Everything that the view shows. */
async function ask(name) {
  const [endpoint, timeline, lines] = await Promise.all([
    api.endpoint(name),
    api.timeline(name),
    api.logs(name, "info"),
  ]);
  // It may have ended since.
  const gone = (error) => {
    if (error.status === 404) return null;
    throw error;
  };
  const trial = endpoint.trial ? await api.trial(name).catch(gone) : null;
  return { endpoint, timeline, lines, trial };
}

function Figures({ endpoint }) {
  const now = minute(endpoint);
  const { requests } = endpoint;
  const figures = [
    ["Requests/s", now ? number(now.rate) : "–"],
    ["Refused", now ? percent(now.refused) : "–"],
    ["Errors", now ? percent(now.errors) : "–"],
    ["p50", duration(now?.p50)],
    ["p99", duration(now?.p99)],
    ["In flight", number(requests.in_flight)],
    ["Queued", number(requests.queued)],
    ["Instances", number(endpoint.instances)],
    ["Memory", bytes(endpoint.memory_bytes ?? 0)],
  ];
  return html`<dl class="figures">
    ${figures.map(([name, figure]) => html`<div key=${name}><dt>${name}</dt><dd>${figure}</dd></div>`)}
  </dl>`;
}

function Models({ endpoint, open }) {
  if (!endpoint.models.length) return html`<p class="quiet">None.</p>`;
  return html`<div class="scroll"><table>
    <thead><tr><th scope="col">Model</th><th scope="col">State</th><th scope="col">Version</th><th scope="col">Device</th>
      <th scope="col" class="n">Sessions</th><th scope="col" class="n">Largest batch</th><th scope="col"><span class="hidden">Orders</span></th></tr></thead>
    <tbody>
      ${endpoint.models.map((model) => {
        const order = modelOrder(endpoint, model);
        return html`<tr key=${model.name}>
          <th scope="row">${model.name}</th>
          <td>${model.loaded ? "loaded" : html`<span class="tag warn">unloaded</span>`}</td>
          <td>${model.version ?? "–"}${model.other_versions.length ? ` (also ${model.other_versions.join(", ")})` : ""}</td>
          <td>${model.device ?? "–"}</td><td class="n">${model.instances ?? "–"}</td><td class="n">${model.max_batch ?? "–"}</td>
          <td class="n"><button type="button" aria-label=${order.title} onClick=${() => open(order)}>${model.loaded ? "Unload" : "Load"}</button></td>
        </tr>`;
      })}
    </tbody>
  </table></div>`;
}

function History({ endpoint }) {
  return html`<ol class="history">
    ${endpoint.history.map((attempt, i) => {
      const { at, origin, note, outcome, generation, digest, step, error, duration_ms: took } = attempt;
      const serves = outcome === "published" && generation === endpoint.generation;
      return html`<li key=${`${at} ${i}`} class=${outcome === "published" ? (serves ? "serves" : "") : "refused"}>
        <div><b>${generation ? `Generation ${generation}` : "Refused"}</b> ${serves && html`<span class="tag good">serves</span>`}
          ${" "}<code title=${digest}>${short(digest)}</code></div>
        <div>by <b>${origin}</b>${note ? `: “${note}”` : ""}</div>
        <div class="quiet"><time datetime=${new Date(at * 1000).toISOString()}>${clock(at)}</time>, took ${duration(took)}</div>
        ${error && html`<details><summary>${step ? `refused at ${step}` : "reason"}</summary><pre tabindex="0">${error}</pre></details>`}
      </li>`;
    })}
  </ol>`;
}

/** A field of a log line in a short form. */
const field = ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`;
const isLong = ([, value]) => typeof value === "string" && value.includes("\n");

function Line({ line }) {
  const fields = Object.entries(line.fields);
  const brief = fields.filter((it) => !isLong(it)).map(field).join("  ");
  return html`<li class=${line.level.toLowerCase()}>
    <span class="quiet">${clock(line.at)}</span> <span class="level">${line.level}</span> ${line.message}
    ${brief && html`<span class="quiet"> ${brief}</span>`}${line.request_id && html`<span class="quiet"> request ${line.request_id}</span>`}
    ${fields.filter(isLong).map(([name, text]) => html`<details key=${name}><summary>${name}</summary><pre tabindex="0">${text}</pre></details>`)}
  </li>`;
}

function Log({ lines, none }) {
  if (!lines.length) return html`<p class="quiet">${none}</p>`;
  return html`<ul class="log" tabindex="0">${lines.map((line) => html`<${Line} key=${line.number} line=${line} />`)}</ul>`;
}

export function Endpoint({ name, failed }) {
  const { data, error, again } = usePoll(() => ask(name).catch((error) => {
    failed(error);
    throw error;
  }), name, 2);
  const [order, setOrder] = useState(null);
  const [result, setResult] = useState(null);
  const done = (outcome) => {
    setOrder(null);
    if (outcome) setResult(outcome);
    again();
  };
  const back = html`<nav aria-label="Path"><a href="#/">Endpoints</a></nav>`;
  if (!data) {
    return html`<main>${back}<h1>${name}</h1><p role="status">${error ? error.message : "Loading …"}</p></main>`;
  }
  const { endpoint, timeline, trial, lines } = data;
  const faults = lines.filter(({ level }) => level === "ERROR" || level === "WARN").slice(-20).reverse();
  return html`<main>
    ${back}
    <div class="title">
      <h1>${name}</h1>
      ${states(endpoint).map(({ text, tone }) => html`<span key=${text} class="tag ${tone}">${text}</span>`)}
      <div class="buttons">
        ${ordersOf(endpoint).map(
          (order) => html`<button key=${order.id} id=${order.id} type="button" onClick=${() => setOrder(order)}>${order.title}</button>`,
        )}
      </div>
    </div>
    <p id="result" role="status" class=${result?.failed ? "bad" : "good"}>${result?.text}</p>
    <p class="quiet">Path <code>${endpoint.path}</code>, generation <b id="generation">${endpoint.generation}</b> since
      ${" "}${clock(endpoint.published)}, handler <code id="digest" title=${endpoint.digest}>${short(endpoint.digest)}</code></p>
    <${Figures} endpoint=${endpoint} />
    <section aria-labelledby="pictures">
      <h2 id="pictures">Last 15 minutes</h2>
      <${Charts} timeline=${timeline} history=${endpoint.history} />
    </section>
    ${trial && html`<${Trial} trial=${trial} />`}
    <div class="columns">
      <section aria-labelledby="generations"><h2 id="generations">Generations</h2><${History} endpoint=${endpoint} /></section>
      <section aria-labelledby="models"><h2 id="models">Models</h2><${Models} endpoint=${endpoint} open=${setOrder} /></section>
    </div>
    <section aria-labelledby="faults"><h2 id="faults">Faults and warnings</h2>
      <${Log} lines=${faults} none="None in the log's last lines." /></section>
    <section aria-labelledby="log"><h2 id="log">Log</h2>
      <${Log} lines=${[...lines].reverse()} none="No lines." /></section>
    ${order && html`<${Confirm} name=${name} order=${order} done=${done} />`}
  </main>`;
}
