//! The story of a flow as `run --explain` has written it: why it was not faster, and line by line what happened, with
//! the window at that moment.

use serde_json::{Value as Json, json};

/// Reads the text of a flow: paragraphs, then for each connection its title, if there are several, the names of the
/// columns, and its events.
pub fn story(text: &str) -> Json {
    let mut events = Vec::new();
    let mut why: Vec<&str> = Vec::new();
    let (mut begun, mut title) = (false, "");
    let mut lines = text.lines().peekable();
    let is_head = |line: &str| line.trim_start().starts_with("time ");
    while let Some(line) = lines.next() {
        if lines.peek().is_some_and(|next| is_head(next)) && line.ends_with(':') {
            title = line.trim_end_matches(':');
            begun = true;
        } else if is_head(line) {
            begun = true;
        } else if begun {
            events.extend(event(line, title));
        } else {
            why.push(line);
        }
    }
    let paragraphs = why.join("\n");
    let paragraphs: Vec<String> = paragraphs
        .split("\n\n")
        .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|it| !it.is_empty())
        .collect();
    json!({"why": paragraphs, "events": events})
}

/// `   3.820888 s    110        81     110   66.513  state       Open -> Disorder, …`
fn event(line: &str, connection: &str) -> Option<Json> {
    let (time, rest) = line.trim_start().split_once(" s ")?;
    let time: f64 = time.parse().ok()?;
    let mut rest = rest;
    let mut columns = [""; 4];
    for column in &mut columns {
        rest = rest.trim_start();
        let end = rest.find(' ')?;
        (*column, rest) = rest.split_at(end);
    }
    let number = |text: &str| text.parse::<f64>().ok();
    let text = rest.trim();
    let (kind, detail) = match text.split_once("  ") {
        Some((kind, detail)) => (kind, detail.trim()),
        None if text.starts_with('>') => ("sent", text),
        None if text.starts_with('<') => ("received", text),
        None => (text, ""),
    };
    Some(json!({
        "time": time, "cwnd": number(columns[0]), "ssthresh": number(columns[1]),
        "flight": number(columns[2]), "srtt_ms": number(columns[3]),
        "kind": kind, "text": detail, "connection": connection,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_read_back() {
        let text = "download sent 16.4 MB.\nIt was limited.\n\n        time    cwnd  ssthresh  flight  srtt/ms
   3.820888 s    110        81     110   66.513  state       Open -> Disorder, cwnd 110, ssthresh 81
   3.900000 s      -         -       -        -  > SYN win 64240
";
        let story = story(text);
        assert_eq!(story["why"][0], "download sent 16.4 MB. It was limited.");
        assert_eq!(story["events"][0]["kind"], "state");
        assert_eq!(story["events"][0]["text"], "Open -> Disorder, cwnd 110, ssthresh 81");
        assert_eq!(story["events"][0]["cwnd"], 110.0);
        assert_eq!(story["events"][0]["time"], 3.820888);
        assert_eq!(story["events"][1]["kind"], "sent");
        assert!(story["events"][1]["cwnd"].is_null());
    }
}
