# shellcheck shell=bash disable=SC2034 # The variables are for the script that sources this one.
# Finds or brings a toolchain for WebAssembly components; sourced after lib.sh. `require_guest_toolchain` leaves the
# environment and the arguments for cargo in GUEST_ENV and GUEST_ARGS, and what sets the way apart in GUEST_WAY. It tries, in this order: the standard library for
# wasm32-wasip2 that is already there, rustup, Debian's packages (whose standard library is built from source).
# MODELHOST_GUEST_TOOLCHAIN=rustup|debian takes one of the ways without trying the others.

GUEST_TARGET=wasm32-wasip2
# Every engine that runs components has SIMD; no compiler uses it unless told to.
GUEST_FLAGS="-C target-feature=+simd128"
# All set by require_guest_toolchain.
GUEST_ENV=("CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS=$GUEST_FLAGS")
GUEST_ARGS=()
GUEST_WAY=

# Debian's packages, and the files by which their presence shows.
DEBIAN_PACKAGES=(rustc-web rust-web-src wasi-libc lld-19)
DEBIAN_RUSTC=/usr/bin/rustc
DEBIAN_LINKER=/usr/bin/wasm-ld-19
DEBIAN_WASI=/usr/lib/wasm32-wasi

std_is_installed() { [ -d "$(rustc --print sysroot)/lib/rustlib/$GUEST_TARGET/lib" ]; }

try_rustup() {
    if std_is_installed; then return; fi
    have rustup || return 1
    step "adding the Rust target $GUEST_TARGET"
    limited 180 rustup target add "$GUEST_TARGET" </dev/null >&2 && std_is_installed
}

debian_is_complete() {
    [ -x "$DEBIAN_LINKER" ] && [ -d "$DEBIAN_WASI" ] && [ -x "$DEBIAN_RUSTC" ] \
        && [ -e "$("$DEBIAN_RUSTC" --print sysroot)/lib/rustlib/src/rust/library/std/Cargo.toml" ]
}

try_debian() {
    debian_is_complete || { apt_install "${DEBIAN_PACKAGES[@]}" && debian_is_complete; } || return 1
    local rustup_bin
    # Debian has no `wasm-component-ld`; the one that comes with rustup's toolchain links for any compiler.
    rustup_bin=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
    [ -x "$rustup_bin/wasm-component-ld" ] || have wasm-component-ld || return 1
    step "no $GUEST_TARGET from rustup: building its standard library from Debian's sources (once, a few minutes)"
    GUEST_ENV=(
        # Clippy, where `make lint` has put it in the compiler's place, is not of this compiler.
        "RUSTC_BOOTSTRAP=1" "RUSTC=$DEBIAN_RUSTC" "RUSTC_WORKSPACE_WRAPPER=" "PATH=$PATH:$rustup_bin"
        "CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS=$GUEST_FLAGS -L$DEBIAN_WASI -C link-self-contained=no -C link-arg=--wasm-ld-path=$DEBIAN_LINKER"
    )
    GUEST_ARGS=(-Z "build-std=std,panic_abort")
    GUEST_WAY=-debian
}

require_guest_toolchain() {
    require_rust
    case ${MODELHOST_GUEST_TOOLCHAIN:-} in
        rustup) try_rustup && return ;;
        debian) try_debian && return ;;
        "") if try_rustup || try_debian; then return; fi ;;
        *) die "MODELHOST_GUEST_TOOLCHAIN is \`$MODELHOST_GUEST_TOOLCHAIN\`, expected \`rustup\` or \`debian\`" ;;
    esac
    die "no Rust toolchain for $GUEST_TARGET" "rustup target add $GUEST_TARGET" \
        "without rustup's servers, Debian 12: sudo apt-get install ${DEBIAN_PACKAGES[*]}"
}
