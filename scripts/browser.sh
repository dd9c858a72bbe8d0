#!/usr/bin/env bash
# Brings the browser in which the tests open the page at /docs: Chromium, and chromedriver, by which they drive it. Does nothing if
# both are there.
. "$(dirname "$0")/lib.sh"

if have chromedriver && { have chromium || have chromium-browser || have google-chrome; }; then exit 0; fi
apt_install chromium chromium-driver || die "there is no Chromium with its chromedriver, which a test needs" \
    "Debian: sudo apt-get install chromium chromium-driver" \
    "macOS: brew install --cask chromium chromedriver"
