use super::{Env, Failure, Value, parse};
use crate::fault::Pos;

fn env() -> Env {
    let mut env = Env::default();
    env.facts.insert("tcpi_snd_cwnd", 10);
    env.facts.insert("tcpi_options", 7);
    env.facts.insert("TCPI_OPT_ECN", 8);
    env
}

fn run(text: &str) -> Result<Env, Failure> {
    let block = parse(text, Pos { line: 1, column: 1 }).expect("parses");
    let mut env = env();
    env.run(&block).map(|()| env)
}

#[test]
fn what_scripts_write_holds() {
    for text in [
        "assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd",
        " assert 9 <= tcpi_snd_cwnd < 11",
        "assert (tcpi_options & TCPI_OPT_ECN) == 0, tcpi_options",
        "cwnd = 9; cwnd += 1; assert tcpi_snd_cwnd == cwnd",
        "\nassert tcpi_snd_cwnd == 10, \\\n  'cwnd=%d' % tcpi_snd_cwnd\n# a remark\nassert True\n",
        "assert not tcpi_snd_cwnd != 10 and (1 or 0)",
        "if tcpi_snd_cwnd > 5:\n  assert True\nelse:\n  assert False\n",
        "if tcpi_snd_cwnd < 5: assert False\nelif tcpi_snd_cwnd == 10: x = 1\nassert x == 1",
        "assert abs(3 - tcpi_snd_cwnd) == 7 and max(1, 2) == 2 and min(1, 2) == 1",
        "assert tcpi_snd_cwnd in (9, 10) and 3 not in (1, 2)",
        "assert -7 // 2 == -4 and -7 % 3 == 2 and 2 ** 10 == 1024 and 1 << 4 == 16",
        "assert 1.5 < 2 and 1e3 == 1000 and 0xff == 255",
        "assert (1 if tcpi_snd_cwnd else 2) == 1; pass",
        "  assert tcpi_snd_cwnd == 10\n  assert tcpi_options == 7\n",
    ] {
        assert_eq!(run(text).map(|_| ()), Ok(()), "{text}");
    }
}

#[test]
fn a_long_chain_of_operators_is_refused() {
    for operator in ["or", "and", "+", "|"] {
        let chain = |count| format!("assert 1{}", format!(" {operator} 1").repeat(count));
        assert_eq!(run(&chain(256)).map(|_| ()), Ok(()), "{operator}");
        let fault = parse(&chain(257), Pos { line: 1, column: 1 }).expect_err(operator);
        assert!(fault.to_string().contains("fewer operators"), "{fault}");
    }
    let two = format!("x = 1{0}\nassert x{0}", " + 1".repeat(200));
    assert_eq!(run(&two).map(|_| ()), Ok(()), "each statement has its own");
}

#[test]
fn print_is_kept() {
    let env = run("print(tcpi_snd_cwnd, 'x'); print('%d/%x' % (10, 255))").expect("runs");
    assert_eq!(env.printed, ["10 x", "10/ff"]);
}

#[test]
fn a_failure_reports_statement_and_values() {
    let failure = run("x = 3\nassert tcpi_snd_cwnd == x, 'cwnd %d' % tcpi_snd_cwnd")
        .expect_err("10 is not 3");
    assert_eq!(failure.pos, Pos { line: 2, column: 1 });
    assert_eq!(failure.what, "assertion failed: cwnd 10");
    assert_eq!(
        failure.values,
        [("tcpi_snd_cwnd".to_owned(), "10".to_owned()), ("x".to_owned(), "3".to_owned())]
    );
}

#[test]
fn unknown_names_and_bad_arithmetic_fail() {
    for (text, what) in [
        ("assert tcpi_snd_cwmd == 10", "did you mean `tcpi_snd_cwnd`?"),
        ("assert 1 // 0", "division by zero"),
        ("assert 'a' < 1", "cannot compare"),
        ("x = 2 ** 200", "too large"),
    ] {
        let failure = run(text).expect_err(text);
        assert!(failure.what.contains(what), "{text}: {}", failure.what);
    }
}

#[test]
fn there_is_no_way_out() {
    for text in [
        "import os",
        "while True: pass",
        "for i in (1, 2): pass",
        "open('/etc/passwd')",
        "__import__('os')",
        "x = (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1",
        "assert",
        "if 1:\nassert 1",
    ] {
        assert!(parse(text, Pos { line: 1, column: 1 }).is_err(), "{text}");
    }
}

/// What Python has and code blocks have not is told apart from what is wrong.
#[test]
fn what_is_not_interpreted_skips() {
    for (text, skips) in [
        ("import sys", true),
        ("for i in (1, 2): pass", true),
        ("x = {1: 2}", true),
        ("print(f\"{tcpi_snd_cwnd}\")", true),
        ("assert len('a') == 1", true),
        ("assert lenn('a') == 1", false),
        ("assert", false),
        ("x = = 1", false),
    ] {
        let fault = parse(text, Pos { line: 1, column: 1 }).expect_err(text);
        assert_eq!(fault.no_meaning, skips, "{text}: {fault}");
    }
}

#[test]
fn steps_are_bounded() {
    let many = "x = 1 + 1\n".repeat(40_000);
    let failure = run(&many).expect_err("too many steps");
    assert!(failure.what.contains("steps"));
}

#[test]
fn values_show_as_in_python() {
    assert_eq!(Value::Millionths(1_500_000).show(), "1.5");
    assert_eq!(Value::Tuple(vec![Value::Int(1), Value::Bool(true)]).show(), "(1, True)");
}
