// A trial: its share and steps, the figures of both handlers side by side, and where their answers differ.

import { clock, duration, html, number, percent, short } from "./view.js";

const FIGURES = [
  ["Requests", (side) => number(side.requests)],
  ["Errors", (side) => number(side.errors)],
  ["Faults", (side) => number(side.faults)],
  ["Mean", (side) => duration(side.mean_ms)],
  ["p50", (side) => duration(side.p50_ms)],
  ["p99", (side) => duration(side.p99_ms)],
];

function Steps({ trial }) {
  const { steps, step, step_time_seconds: time, held_seconds: held } = trial;
  if (!steps.length) return null;
  return html`<ol class="steps" aria-label="Steps of the share">
    ${steps.map((share, i) => {
      const state = i + 1 < step ? "done" : i + 1 === step ? "now" : "";
      const said = i + 1 < step ? " (done)" : i + 1 === step ? " (now)" : "";
      return html`<li key=${i} class=${state}>${percent(Number(share))}<span class="hidden">${said}</span></li>`;
    })}
    ${time ? html`<li class="quiet">for ${number(Math.min(held, time))} of ${number(time)} s</li>` : null}
  </ol>`;
}

function Differences({ differences }) {
  if (!differences.length) return html`<p class="quiet">No differences so far.</p>`;
  const rows = differences.flatMap(({ at, request_id: id, outcome, differences: found }) =>
    (found.length ? found : [{}]).map((difference, i) => ({ at, id, outcome, ...difference, key: `${id} ${i}` })),
  );
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Differences">
    <table>
      <thead><tr><th scope="col">When</th><th scope="col">Request</th><th scope="col">Where</th>
        <th scope="col">What differs, the current handler's value first</th></tr></thead>
      <tbody>
        ${rows.slice(0, 100).map(
          ({ at, id, outcome, place, change, key }) => html`<tr key=${key}>
            <td>${clock(at)}</td><td><code>${id}</code></td><td><code>${place ?? "–"}</code></td>
            <td><code>${change ?? outcome}</code></td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

export function Trial({ trial }) {
  const { mode, share, current, candidate, compared, failures } = trial;
  return html`<section aria-labelledby="trial">
    <h2 id="trial">Trial</h2>
    <p>${mode === "canary" ? "Canary" : "Shadow"} of handler <code>${short(candidate.digest)}</code>, ${" "}
      <b id="share">${percent(share)}</b> of the requests, since ${clock(trial.since)}${trial.note ? `: ${trial.note}` : ""}</p>
    <div class="share" aria-hidden="true"><span style=${{ width: `${share * 100}%` }}></span></div>
    <${Steps} trial=${trial} />
    <div class="columns">
      <table class="sides">
        <thead><tr><th scope="col">Handler</th><th scope="col" class="n">Current <code>${short(current.digest)}</code></th>
          <th scope="col" class="n">Candidate <code>${short(candidate.digest)}</code></th></tr></thead>
        <tbody>
          ${FIGURES.map(
            ([name, of]) => html`<tr key=${name}><th scope="row">${name}</th><td class="n">${of(current)}</td>
              <td class="n">${of(candidate)}</td></tr>`,
          )}
        </tbody>
      </table>
      <dl class="facts">
        ${Object.entries(compared).map(([name, n]) => html`<div key=${name}><dt>answers: ${name}</dt><dd>${number(n)}</dd></div>`)}
        ${Object.entries(failures).map(([name, n]) => html`<div key=${name}><dt>failure: ${name}</dt><dd>${number(n)}</dd></div>`)}
      </dl>
    </div>
    <h3>Differences</h3>
    <${Differences} differences=${trial.differences} />
  </section>`;
}
