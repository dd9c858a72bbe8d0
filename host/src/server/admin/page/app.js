// The operator's page: which view the address names, the login, and what all views have around them.

import { render } from "./preact.js";
import { useEffect, useState } from "./hooks.js";
import * as api from "./api.js";
import { Endpoint } from "./endpoint.js";
import { Overview } from "./overview.js";
import { html, usePoll } from "./view.js";

/** The endpoint that the address names, if it names one. */
function named() {
  const found = location.hash.match(/^#\/endpoint\/(.+)$/);
  return found ? decodeURIComponent(found[1]) : null;
}

function Login({ wrong, enter }) {
  const [key, setKey] = useState("");
  const submit = (event) => {
    event.preventDefault();
    api.setKey(key);
    enter();
  };
  return html`<main class="login">
    <h1>Key</h1>
    <form onSubmit=${submit}>
      <label>Key of this address (server.admin_key)
        <input id="key" type="password" autocomplete="off" required value=${key} onInput=${(event) => setKey(event.target.value)} /></label>
      <p role="alert" class="bad">${wrong ? "The server does not know this key." : ""}</p>
      <button type="submit" class="primary">Open</button>
      <p class="quiet">The page keeps the key until it is closed or loaded again, and stores it nowhere.</p>
    </form>
  </main>`;
}

function All({ failed }) {
  const { data, error } = usePoll(() => api.endpoints().catch((error) => {
    failed(error);
    throw error;
  }), "endpoints", 5);
  if (!data) return html`<main><h1>Endpoints</h1><p role="status">${error ? error.message : "Loading …"}</p></main>`;
  return html`${error && html`<p role="alert" class="stale">Not up to date: ${error.message}</p>`}<${Overview} endpoints=${data} />`;
}

function App() {
  const [name, setName] = useState(named());
  const [locked, setLocked] = useState(null);
  useEffect(() => {
    const follow = () => setName(named());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    document.title = name ? `${name}: modelhost` : "modelhost: operator";
    scrollTo(0, 0);
  }, [name]);
  const failed = (error) => {
    if (error.status === 401) setLocked({ wrong: api.hasKey() });
  };
  const leave = () => {
    api.setKey(null);
    setLocked({ wrong: false });
  };
  const view = () => {
    if (locked) return html`<${Login} wrong=${locked.wrong} enter=${() => setLocked(null)} />`;
    return name ? html`<${Endpoint} key=${name} name=${name} failed=${failed} />` : html`<${All} failed=${failed} />`;
  };
  return html`<header>
      <a class="brand" href="#/">modelhost</a><span class="quiet">${location.host}</span>
      <nav aria-label="Further">
        <a href="metrics">Metrics</a>
        ${!locked && api.hasKey() && html`<button type="button" id="leave" onClick=${leave}>Forget key</button>`}
      </nav>
    </header>
    ${view()}`;
}

render(html`<${App} />`, document.getElementById("app"));
