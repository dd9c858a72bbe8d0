// What every view uses: templates, how figures are written, and polling.

import { h } from "./preact.js";
import { useEffect, useRef, useState } from "./hooks.js";
import htm from "./htm.js";

export const html = htm.bind(h);

/** A number of three significant digits at most, thousands grouped. */
export function number(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  if (n === 0) return "0";
  if (n >= 100) return Math.round(n).toLocaleString("en");
  return String(Number(n.toPrecision(n < 1 ? 2 : 3)));
}

/** A duration that is given in milliseconds, with its unit. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0";
  if (ms < 1) return `${number(ms * 1000)} µs`;
  if (ms < 1000) return `${number(ms)} ms`;
  return `${number(ms / 1000)} s`;
}

export function percent(share) {
  if (share === 0) return "0 %";
  return share < 0.001 ? "< 0.1 %" : `${number(share * 100)} %`;
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit += 1) n /= 1024;
  return `${number(n)} ${units[unit]}`;
}

/** A time of the day, with the date if that is another day. */
export function clock(seconds) {
  const at = new Date(seconds * 1000);
  const time = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
}

export const short = (digest) => (digest ? digest.slice(0, 12) : "–");

/** Rate, shares of refused and failed requests, and percentiles of the last minute; `null` if it had no request. */
export function minute({ recent }) {
  if (!recent) return null;
  const all = recent.answered + recent.refused + recent.failed;
  const [refused, errors] = [recent.refused / all, recent.failed / all];
  return { rate: all / recent.seconds, refused, errors, p50: recent.p50_ms, p99: recent.p99_ms };
}

/** Asks `ask` now, every `seconds` while the page is visible, and when `again` is called; `name` says what is asked for. */
export function usePoll(ask, name, seconds) {
  const [state, setState] = useState({ data: null, error: null });
  const latest = useRef(null);
  latest.current = ask;
  const trigger = useRef(() => {});
  useEffect(() => {
    let ended = false;
    let timer = null;
    const round = async () => {
      clearTimeout(timer);
      if (!document.hidden) {
        try {
          const data = await latest.current();
          if (!ended) setState({ data, error: null });
        } catch (error) {
          if (!ended) setState((before) => ({ data: before.data, error }));
        }
      }
      clearTimeout(timer);
      if (!ended) timer = setTimeout(round, seconds * 1000);
    };
    trigger.current = round;
    setState({ data: null, error: null });
    round();
    document.addEventListener("visibilitychange", round);
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", round);
    };
  }, [name]);
  return { ...state, again: () => trigger.current() };
}
