#!/usr/bin/env bash
# In place of rustdoc while cargo runs the documentation's examples (`make doc`): builds the documentation first, private items
# included, warnings as errors. So dependencies are compiled once, for the program; `cargo doc` has them checked all over again.
set -euo pipefail

arguments=()
for argument in "$@"; do
    case $argument in
        --test | --no-run) ;;
        # What belongs to the examples alone; all of them have a value.
        --test-*) is_value=1 && continue ;;
        *) [ -n "${is_value:-}" ] || arguments+=("$argument") ;;
    esac
    is_value=
done
# A module's header may point at what is private in it: it is for those who work on the module.
if [ ${#arguments[@]} -gt 1 ]; then
    rustdoc "${arguments[@]}" --document-private-items --out-dir "$CARGO_TARGET_DIR/doc" -D warnings -A rustdoc::private-intra-doc-links
fi
exec rustdoc "$@"
