// All endpoints in one table that can be searched and sorted. Only the rows in sight are in the document.

import { useEffect, useMemo, useRef, useState } from "./hooks.js";
import { duration, html, minute, number, percent } from "./view.js";

const ROW = 34;
const BEYOND = 10;

const COLUMNS = [
  { id: "name", title: "Endpoint", of: (row) => row.name },
  { id: "rate", title: "Requests/s", of: (row) => row.minute?.rate ?? -1, number: true },
  { id: "errors", title: "Errors", of: (row) => row.minute?.errors ?? -1, number: true },
  { id: "p50", title: "p50", of: (row) => row.minute?.p50 ?? -1, number: true, wide: true },
  { id: "p99", title: "p99", of: (row) => row.minute?.p99 ?? -1, number: true },
  { id: "in_flight", title: "In flight", of: (row) => row.requests.in_flight, number: true, wide: true },
  { id: "queued", title: "Queued", of: (row) => row.requests.queued, number: true, wide: true },
  { id: "generation", title: "Generation", of: (row) => row.generation, number: true, wide: true },
  { id: "state", title: "State", of: (row) => states(row).map(({ text }) => text).join(), wide: true },
];

/** What is out of the ordinary about an endpoint. */
export function states({ trial, breaker, models, last_swap: swap }) {
  const found = [];
  if (breaker && breaker !== "closed") found.push({ text: `breaker ${breaker}`, tone: "bad" });
  if (swap?.outcome === "refused") found.push({ text: "swap refused", tone: "warn" });
  if (models.some(({ loaded }) => !loaded)) found.push({ text: "model unloaded", tone: "warn" });
  if (trial) found.push({ text: `${trial.mode} ${percent(trial.share)}`, tone: "note" });
  return found;
}

/** The p99 from which an endpoint stands out: several times the median of those that are used. */
function slowFrom(rows) {
  const p99 = rows.filter((row) => row.minute).map((row) => row.minute.p99);
  p99.sort((a, b) => a - b);
  return p99.length < 3 ? Infinity : Math.max(10, 4 * p99[Math.floor((p99.length - 1) / 2)]);
}

function Row({ row, index, slow, most }) {
  const { minute: now, requests } = row;
  const isSlow = now && now.p99 >= slow;
  const bar = now && most > 0 ? Math.max(2, (now.p99 / most) * 100) : 0;
  return html`<tr aria-rowindex=${index + 2} class=${isSlow ? "slow" : ""}>
    <th scope="row"><a href="#/endpoint/${encodeURIComponent(row.name)}">${row.name}</a></th>
    <td class="n">${now ? number(now.rate) : "–"}</td>
    <td class="n ${now && now.errors > 0 ? "bad" : ""}">${now ? percent(now.errors) : "–"}</td>
    <td class="n wide">${now ? duration(now.p50) : "–"}</td>
    <td class="n p99">
      ${now && html`<span class="bar" style=${{ width: `${bar}%` }} aria-hidden="true"></span>`}
      <span>${isSlow && html`<span class="tag warn">slow</span>`} ${now ? duration(now.p99) : "–"}</span>
    </td>
    <td class="n wide">${number(requests.in_flight)}</td>
    <td class="n wide ${requests.queued > 0 ? "warn" : ""}">${number(requests.queued)}</td>
    <td class="n wide">${row.generation}</td>
    <td class="wide">
      ${states(row).map(({ text, tone }) => html`<span key=${text} class="tag ${tone}">${text}</span>`)}
    </td>
  </tr>`;
}

function Totals({ rows, slow }) {
  const used = rows.filter((row) => row.minute);
  const rate = used.reduce((sum, row) => sum + row.minute.rate, 0);
  const failed = used.reduce((sum, row) => sum + row.minute.rate * row.minute.errors, 0);
  const sum = (of) => rows.reduce((sum, { requests }) => sum + requests[of], 0);
  const figures = [
    ["Endpoints", number(rows.length)],
    ["Used", number(used.length)],
    ["Slow", number(used.filter((row) => row.minute.p99 >= slow).length)],
    ["Requests/s", number(rate)],
    ["Errors", rate > 0 ? percent(failed / rate) : "–"],
    ["In flight", number(sum("in_flight"))],
    ["Queued", number(sum("queued"))],
  ];
  return html`<dl class="figures">
    ${figures.map(([name, figure]) => html`<div key=${name}><dt>${name}</dt><dd>${figure}</dd></div>`)}
  </dl>`;
}

export function Overview({ endpoints }) {
  const [search, setSearch] = useState("");
  const [sort, setSort] = useState({ id: "p99", down: true });
  const [window_, setWindow] = useState({ top: 0, height: 800 });
  const box = useRef(null);
  const rows = useMemo(
    () => endpoints.map((endpoint) => ({ ...endpoint, minute: minute(endpoint) })),
    [endpoints],
  );
  const shown = useMemo(() => {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const found = rows.filter((row) => {
      const text = `${row.name} ${row.path} ${row.digest ?? ""} ${states(row).map((it) => it.text)}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const { of } = COLUMNS.find(({ id }) => id === sort.id);
    const order = (a, b) => {
      const [x, y] = [of(a), of(b)];
      if (x === y) return a.name < b.name ? -1 : 1;
      return (x < y ? -1 : 1) * (sort.down ? -1 : 1);
    };
    return found.sort(order);
  }, [rows, search, sort]);
  const slow = useMemo(() => slowFrom(rows), [rows]);
  const most = rows.reduce((most, row) => Math.max(most, row.minute?.p99 ?? 0), 0);
  useEffect(() => {
    const measure = () => box.current && setWindow({ top: box.current.scrollTop, height: box.current.clientHeight });
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  const first = Math.max(0, Math.floor(window_.top / ROW) - BEYOND);
  const last = Math.min(shown.length, Math.ceil((window_.top + window_.height) / ROW) + BEYOND);
  const spacer = (rows) =>
    rows > 0 && html`<tr aria-hidden="true" class="spacer"><td colspan=${COLUMNS.length} style=${{ height: `${rows * ROW}px` }}></td></tr>`;
  const by = (id) => setSort({ id, down: sort.id === id ? !sort.down : id !== "name" });
  return html`<main>
    <h1>Endpoints</h1>
    <${Totals} rows=${rows} slow=${slow} />
    <div class="tools">
      <label>
        Search <input type="search" value=${search} placeholder="name, path, digest or state"
          onInput=${(event) => {
            setSearch(event.target.value);
            if (box.current) box.current.scrollTop = 0;
          }} />
      </label>
      <span role="status" class="quiet">${number(shown.length)} of ${number(rows.length)} shown; figures of the last minute</span>
    </div>
    <div class="rows" ref=${box} tabindex="0" role="region" aria-label="Table of endpoints"
      onScroll=${(event) => setWindow({ top: event.target.scrollTop, height: event.target.clientHeight })}>
      <table aria-rowcount=${shown.length + 1}>
        <thead>
          <tr aria-rowindex="1">
            ${COLUMNS.map(
              ({ id, title, number: figure, wide }) => html`<th
                key=${id}
                scope="col"
                class="${figure ? "n" : ""} ${wide ? "wide" : ""}"
                aria-sort=${sort.id === id ? (sort.down ? "descending" : "ascending") : "none"}
              >
                <button type="button" class="head" onClick=${() => by(id)}>
                  ${title}<span aria-hidden="true">${sort.id === id ? (sort.down ? " ↓" : " ↑") : ""}</span>
                </button>
              </th>`,
            )}
          </tr>
        </thead>
        <tbody>
          ${spacer(first)}
          ${shown.slice(first, last).map(
            (row, i) => html`<${Row} key=${row.name} row=${row} index=${first + i} slow=${slow} most=${most} />`,
          )}
          ${spacer(shown.length - last)}
        </tbody>
      </table>
      ${shown.length === 0 && html`<p class="quiet">No endpoint fits the search.</p>`}
    </div>
  </main>`;
}
