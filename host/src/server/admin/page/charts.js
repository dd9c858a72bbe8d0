// Pictures of the last fifteen minutes: lines, or areas on top of each other, with the swaps as marks. SVG, no library.

import { duration, html, number } from "./view.js";

const WIDTH = 600;
const HEIGHT = 120;
/** Samples of fifteen minutes. */
const SAMPLES = 180;

/** The next round number above `n`. */
function ceiling(n) {
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= n * 0.999);
}

function Legend({ series, write }) {
  return html`<ul class="legend">
    ${series.map(
      ({ name, values, tone }) => html`<li key=${name}>
        <span class="swatch ${tone}" aria-hidden="true"></span>${name}${" "}
        <b>${write(values.at(-1) ?? 0)}</b>
      </li>`,
    )}
  </ul>`;
}

/**
 * One picture. `series` are `{name, values, tone}`, the latest value last; `unit` is `ms` or nothing; with `stacked` they are areas
 * on top of each other; `marks` are `{index, name}`, counted in samples from the left edge.
 */
export function Chart({ title, series, unit, stacked, marks }) {
  const write = unit === "ms" ? duration : number;
  const x = (index, length) => ((SAMPLES - length + index) / (SAMPLES - 1)) * WIDTH;
  const length = series[0].values.length;
  const sums = series[0].values.map((_, i) => series.reduce((sum, { values }) => sum + values[i], 0));
  const largest = Math.max(0, ...(stacked ? sums : series.flatMap(({ values }) => values)));
  const top = ceiling(largest);
  const y = (value) => HEIGHT - (value / top) * (HEIGHT - 4);
  const line = (values) =>
    values.map((value, i) => `${i ? "L" : "M"}${x(i, length).toFixed(1)},${y(value).toFixed(1)}`).join("");
  let below = series[0].values.map(() => 0);
  const shapes = series.map(({ name, values, tone }) => {
    if (!stacked) return html`<path key=${name} class="line ${tone}" d=${line(values)} />`;
    const above = values.map((value, i) => value + below[i]);
    const back = below.map((value, i) => `L${x(i, length).toFixed(1)},${y(value).toFixed(1)}`).reverse();
    below = above;
    return html`<path key=${name} class="area ${tone}" d="${line(above)}${back.join("")}Z" />`;
  });
  const said = series.map(({ name, values }) => {
    const most = Math.max(0, ...values);
    return `${name}: ${write(values.at(-1) ?? 0)} now, ${write(most)} at most`;
  });
  const swaps = marks.length ? `; ${marks.length} generations were published meanwhile` : "";
  return html`<figure class="chart">
    <figcaption>${title}</figcaption>
    <${Legend} series=${series} write=${write} />
    <div class="plot">
      <span class="top" aria-hidden="true">${write(top)}</span>
      <svg
        viewBox="0 0 ${WIDTH} ${HEIGHT}"
        preserveAspectRatio="none"
        role="img"
        aria-label="${title} in the last 15 minutes. ${said.join("; ")}${swaps}."
      >
        <path class="grid" d="M0,${y(top)}H${WIDTH}M0,${y(top / 2)}H${WIDTH}M0,${HEIGHT - 0.5}H${WIDTH}" />
        ${length > 0 && shapes}
        ${marks.map(
          ({ index, name }) => html`<line
            key=${name}
            class="mark"
            x1=${(index / (SAMPLES - 1)) * WIDTH}
            x2=${(index / (SAMPLES - 1)) * WIDTH}
            y1="0"
            y2=${HEIGHT}
          />`,
        )}
      </svg>
      ${marks.map(
        ({ index, name }) => html`<span
          key=${name}
          class="mark-name"
          aria-hidden="true"
          style=${{ left: `${(index / (SAMPLES - 1)) * 100}%` }}
          >${name}</span
        >`,
      )}
    </div>
    <div class="times" aria-hidden="true"><span>15 min ago</span><span>10</span><span>5</span><span>now</span></div>
  </figure>`;
}

/** The pictures of an endpoint, of its timeline and its history. */
export function Charts({ timeline, history }) {
  const { at, period_seconds: period, samples } = timeline;
  const rate = (counts) => counts.map((n) => n / period);
  const marks = history
    .filter(({ outcome, generation }) => outcome === "published" && generation > 1)
    .map((attempt) => ({
      index: SAMPLES - 1 - (at - attempt.at) / period,
      name: `gen ${attempt.generation}`,
    }))
    .filter(({ index }) => index >= 0 && index <= SAMPLES - 1);
  const stages = [
    ["waiting", samples.admit_ms, "s1"],
    ["pre-inference", samples.pre_inference_ms, "s2"],
    ["model's queue", samples.queue_ms, "s3"],
    ["model", samples.infer_ms, "s4"],
    ["post-inference", samples.post_inference_ms, "s5"],
  ].map(([name, values, tone]) => ({ name, values, tone }));
  return html`<div class="charts">
    <${Chart}
      title="Requests a second"
      series=${[
        { name: "answered", values: rate(samples.answered), tone: "s2" },
        { name: "refused", values: rate(samples.refused), tone: "s3" },
        { name: "failed", values: rate(samples.failed), tone: "bad" },
      ]}
      marks=${marks}
    />
    <${Chart}
      title="Latency"
      unit="ms"
      series=${[
        { name: "p50", values: samples.p50_ms, tone: "s2" },
        { name: "p99", values: samples.p99_ms, tone: "s4" },
      ]}
      marks=${marks}
    />
    <${Chart} title="Time by stage, mean of a request" unit="ms" stacked=${true} series=${stages} marks=${marks} />
    <${Chart}
      title="Requests at work"
      series=${[
        { name: "in flight", values: samples.in_flight, tone: "s2" },
        { name: "queued", values: samples.queued, tone: "s4" },
      ]}
      marks=${marks}
    />
  </div>`;
}
