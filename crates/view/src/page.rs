//! The page: what a server gives, and what an exported file is.

use std::fmt::Write as _;

use serde_json::Value as Json;

/// The program of the page, made from `web/` by `make web`.
pub const SCRIPT: &str = include_str!("../assets/viewer.js");
/// Its looks.
pub const STYLE: &str = include_str!("../assets/viewer.css");

/// What a page that a server gives may do: load its own files and ask its own server, nothing else.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                          connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page of a server.
pub fn for_server(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <link rel=\"stylesheet\" href=\"viewer.css\">\n</head>\n<body>\n<div id=\"app\"></div>\n\
         <script src=\"viewer.js\"></script>\n</body>\n</html>\n"
    )
}

/// A page that holds everything. `nonce` is what marks its own script and style; anything but these
/// is refused by the browser, as is any request.
pub fn for_export(title: &str, answers: &Json, nonce: &str) -> String {
    let title = escaped(title);
    // A text that ended the script would end it anywhere; JSON and scripts have other ways to write it.
    let data = answers.to_string().replace('<', "\\u003c");
    let script = SCRIPT.replace("</script", "<\\/script");
    let mut page = String::with_capacity(data.len() + script.len() + STYLE.len() + 2_000);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-{nonce}'; \
         style-src 'nonce-{nonce}'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <style nonce=\"{nonce}\">{STYLE}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n\
         <script type=\"application/json\" id=\"answers\" nonce=\"{nonce}\">{data}</script>\n\
         <script nonce=\"{nonce}\">{script}</script>\n</body>\n</html>\n"
    );
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
