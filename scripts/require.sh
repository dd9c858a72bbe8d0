#!/usr/bin/env bash
# Ends with an error if Rust, a linker or one of cargo's named subcommands is missing. In: the subcommands, such as `fmt`.
. "$(dirname "$0")/lib.sh"

require_rust
for subcommand in "$@"; do
    cargo "$subcommand" --version >/dev/null 2>&1 || {
        component=$subcommand
        if [ "$component" = fmt ]; then component=rustfmt; fi
        have rustup && limited 180 rustup component add "$component" </dev/null >&2
    } || die "cargo $subcommand is not installed" "rustup component add $component"
done
