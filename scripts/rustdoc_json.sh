#!/bin/sh
# Cargo calls this in place of rustdoc (scripts/api.py): JSON in place of pages.
case " $* " in
*" --crate-name "*) ;;
*) exec rustdoc "$@" ;;
esac
RUSTC_BOOTSTRAP=1 exec rustdoc "$@" -Zunstable-options --output-format=json
