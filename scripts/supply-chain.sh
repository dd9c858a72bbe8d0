#!/usr/bin/env bash
# Checks dependencies: licences always, known vulnerabilities where that is possible. With cargo-deny, deny.toml is checked as a
# whole; the advisories among it need the RustSec database, which cargo-deny clones with git, so a machine that may not do
# that hears clearly what was not checked. Without cargo-deny, a script checks the licences, which needs no network.
. "$(dirname "$0")/lib.sh"

step "licences of the dependencies"
if ! have cargo-deny; then
    # tomllib came with Python 3.11.
    python3 -c 'import tomllib' 2>/dev/null || die "the licence check needs Python 3.11 or newer, or cargo-deny" \
        "cargo install --locked cargo-deny"
    python3 scripts/check-licences.py || die "a licence is not allowed" "see [licenses] in deny.toml"
    step "NOT CHECKED: advisories, sources and bans, because cargo-deny is not installed"
    note "to check them: cargo install --locked cargo-deny, then make ci"
    exit 0
fi
cargo deny --locked check licenses bans sources </dev/null
step "advisories"
if cargo deny --locked fetch db </dev/null; then
    cargo deny --locked check --disable-fetch advisories </dev/null
else
    step "NOT CHECKED: advisories, because the RustSec database could not be fetched"
fi
