//! What stands below the flags in `--help`. `{host}` is the name that the program was called by.

pub(super) const SERVE_USAGE: &str = "\
{host} serve [OPTIONS] --model <FILE> [--plugin <FILE>]
       {host} serve [OPTIONS] --plugin <FILE>
       {host} serve [OPTIONS] --config <FILE>";

pub(super) const CHECK_USAGE: &str = "\
{host} check [OPTIONS] --model <FILE> [--plugin <FILE>]
       {host} check [OPTIONS] --plugin <FILE>
       {host} check [OPTIONS] --config <FILE>";

pub(super) const RUN_USAGE: &str = "\
{host} run [OPTIONS] --model <FILE> [--plugin <FILE>] <SAMPLE>
       {host} run [OPTIONS] --plugin <FILE> <SAMPLE>
       {host} run [OPTIONS] [--config <FILE>] <SAMPLE>";

pub(super) const DIFF_USAGE: &str =
    "{host} diff [OPTIONS] [--model <FILE>] --samples <DIR|FILE> <OLD.wasm> <NEW.wasm>";

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done; `serve` has answered every request that it accepted
  1  failed; for example, a handler or model cannot be loaded, or does not answer its example
  2  bad usage or configuration";

// One line a paragraph: clap wraps it to the terminal.
pub(super) const ENVIRONMENT: &str = "\
Every flag has a twin in the environment: `--pre-timeout 2s` is `MODELHOST_PRE_TIMEOUT=2s`. Flags win over variables, \
variables over the config file, the file over defaults. A switch is `true` or `false` there, a repeatable flag a list \
with commas.

Sizes are bytes, or have a unit (`64MiB`, `1GB`); durations always have one (`500ms`, `30s`, `1m`).";

pub(super) const LIBRARY: &str = "\
ONNX Runtime's shared library is taken from the first of these places:
  1. `--onnxruntime-lib`, its twin, or `onnxruntime.lib` in the config file
  2. `ORT_DYLIB_PATH`
  3. the `onnxruntime` package of the Python environment that this program is installed in
  4. `${XDG_DATA_HOME:-~/.local/share}/modelhost/lib`, where `make` puts it
  5. the `onnxruntime` package of the active Python environment
  6. the system's library paths";

pub(super) const EXAMPLE: &str = "\
Example:
  {host} serve --plugin handler.wasm --model model.onnx
  curl http://127.0.0.1:8000/ --json '{\"input\": [5.2, 3.6, 1.4, 0.3]}'";

pub(super) const CACHE_EXAMPLE: &str = "\
Examples:
  {host} cache
  {host} cache --clear";

pub(super) const CHECK_EXAMPLE: &str = "\
Example:
  {host} check --config modelhost.toml";

pub(super) const RUN_EXAMPLE: &str = "\
Example:
  echo '{\"input\": [5.2, 3.6, 1.4, 0.3]}' | {host} run --plugin handler.wasm --model model.onnx -";

pub(super) const SWAP_EXAMPLE: &str = "\
Examples:
  {host} swap iris --plugin handler.wasm
  {host} swap digits --plugin handler.wasm --model digits:3
  {host} swap iris --rollback
  {host} swap iris --plugin handler.wasm --canary 0.05,0.25,1 --term step_time=10m --term sticky=header:x-user";

pub(super) const APPLY_EXAMPLE: &str = "\
Examples:
  {host} apply modelhost.toml --dry-run --key @admin.key
  {host} apply modelhost.toml --persist --note \"a second tenant\" --key @admin.key
  {host} apply";

pub(super) const DIFF_CONFIG_EXAMPLE: &str = "\
Example:
  {host} diff-config old.toml modelhost.toml";

pub(super) const STATUS_EXAMPLE: &str = "\
Examples:
  {host} status
  {host} status --watch
  {host} status --admin https://models.example.com:8001 --key @admin.key --json";

pub(super) const HISTORY_EXAMPLE: &str = "\
Example:
  {host} history iris";

pub(super) const LOGS_EXAMPLE: &str = "\
Examples:
  {host} logs --follow
  {host} logs iris --level warn
  {host} logs --request 4f6c1e2a";

pub(super) const TRIAL_EXAMPLE: &str = "\
Examples:
  {host} trial iris
  {host} trial iris --watch";

pub(super) const REPLAY_EXAMPLE: &str = "\
Examples:
  {host} serve --plugin handler.wasm --model model.onnx --record recordings
  {host} replay recordings --plugin handler.wasm
  {host} replay recordings/iris --plugin another.wasm --tolerance 1e-5";

pub(super) const NEW_EXAMPLE: &str = "\
Example:
  {host} new flowers --lang rust
  cd flowers
  {host} build
  {host} test
  {host} serve --config modelhost.toml";

pub(super) const BUILD_EXAMPLE: &str = "\
Examples:
  {host} build
  {host} build flowers";

pub(super) const DEV_EXAMPLE: &str = "\
Examples:
  {host} dev
  {host} dev flowers --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0";

pub(super) const BENCH_EXAMPLE: &str = "\
Examples:
  {host} bench .
  {host} bench http://127.0.0.1:8000/iris --body sample.json --rate 500
  {host} bench old new --duration 30s";

pub(super) const TEST_EXAMPLE: &str = "\
Examples:
  {host} test
  {host} test flowers --junit report.xml
  {host} test --update
  {host} test --debug";

pub(super) const DEMO_EXAMPLE: &str = "\
Examples:
  {host} demo
  {host} demo --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0";

pub(super) const COMPLETIONS_EXAMPLE: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions ~/.zfunc ~/.config/fish/completions
  {host} completions bash > ~/.local/share/bash-completion/completions/{host}
  {host} completions zsh > ~/.zfunc/_{host}
  {host} completions fish > ~/.config/fish/completions/{host}.fish";

pub(super) const DIFF_EXAMPLE: &str = "\
Example:
  {host} diff old.wasm new.wasm --model model.onnx --samples samples/";

/// `parts` with an empty line between them.
pub(super) fn sections(parts: &[&str]) -> String {
    parts.join("\n\n")
}
