//! What a library user adds to the words of experiment files, without a fork.
//!
//! Congestion controls, qdiscs, loss models and applications. A further kind is a further collection here, a method
//! that fills it, and a question at the place where its words are read.

use std::collections::BTreeMap;
use std::fmt;

use datapath::qdisc::GuestQdisc;
use datapath::tcp::cc::{Algorithm, CongestionControl, Guest, GuestError};
use iproute::tc::{GuestKind, KINDS, Setting};
use iproute::words::{GrammarError, Words};
use sim::loss::{LossKind, LossModel};

use crate::application::{Application, ApplicationKind};

/// Names that an experiment file may use besides those of the product.
///
/// ```
/// use datapath::tcp::cc::Reno;
/// let mut registry = lab::Registry::new();
/// registry.congestion_control("mine", || Reno)?;
/// let text = r#"
///     schema = 1
///     name = "two"
///     duration = "1s"
///     [nodes.a]
///     [nodes.b]
///     [links.wire]
///     ends = ["a", "b"]
///     rate = "10mbit"
///     [flows.transfer]
///     app = "bulk"
///     from = "a"
///     to = "b"
///     congestion_control = "mine"
/// "#;
/// let experiment = registry.parse("two.toml", text, &[])?;
/// assert_eq!(experiment.base.flows[0].congestion_control.map(|it| it.name()), Some("mine"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    congestion_controls: BTreeMap<&'static str, Guest>,
    qdiscs: Vec<GuestKind>,
    loss_models: Vec<LossKind>,
    applications: Vec<ApplicationKind>,
    versions: BTreeMap<String, String>,
}

/// Why a name cannot be that of a qdisc, a loss model or an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It is empty, longer than 15 bytes (`IFNAMSIZ`), or has other characters than ASCII letters,
    /// digits, `-` and `_`, or does not begin with a letter.
    Invalid(String),
    /// It means something already.
    Taken(String),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(name) => write!(
                f,
                "\"{name}\" is not a valid name: use a letter, then up to {} letters, digits, \
                 \"-\" or \"_\"",
                NAME_MAX - 1
            ),
            Self::Taken(name) => write!(f, "\"{name}\" is already taken"),
        }
    }
}

impl std::error::Error for NameError {}

/// Longest name, bytes.
const NAME_MAX: usize = 15;
/// What may stand before a qdisc's kind.
const BEFORE_KINDS: [&str; 6] = ["root", "parent", "filter", "handle", "dev", "ingress"];
/// What `loss` says without a name.
const LOSSES: [&str; 3] = ["gemodel", "random", "state"];

/// What `app` says without a library user.
const APPLICATIONS: [&str; 12] = [
    "bulk", "fixed", "chunk", "request", "on-off", "cbr", "ping", "probe", "query", "connect",
    "rrul", "program",
];

fn check_name<'a>(name: &str, taken: impl IntoIterator<Item = &'a str>) -> Result<(), NameError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if !begins || name.len() > NAME_MAX || !name.chars().all(fits) {
        return Err(NameError::Invalid(name.to_owned()));
    }
    if taken.into_iter().any(|other| other == name) {
        return Err(NameError::Taken(name.to_owned()));
    }
    Ok(())
}

impl Registry {
    /// Nothing besides the product's own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a congestion control: `make` makes a fresh module for each connection. Files name it
    /// wherever they name one: `congestion_control` and `net.ipv4.tcp_congestion_control`.
    ///
    /// # Errors
    /// When the name does not fit or there is one already.
    pub fn congestion_control<M, F>(&mut self, name: &str, make: F) -> Result<&mut Self, GuestError>
    where
        M: CongestionControl + Send + Sync + 'static,
        F: Fn() -> M + Send + Sync + 'static,
    {
        if self.congestion_controls.contains_key(name) {
            return Err(GuestError::InUse(name.to_owned()));
        }
        let guest = Guest::new(name, make)?;
        self.congestion_controls.insert(guest.name(), guest);
        Ok(self)
    }

    /// Adds a qdisc: `make` reads its options and makes one. Files name it wherever they name one, as
    /// `"KIND OPTIONS"`, at the root or below a class.
    ///
    /// # Errors
    /// When the name does not fit or means something already.
    pub fn qdisc<Q, F>(&mut self, name: &str, make: F) -> Result<&mut Self, NameError>
    where
        Q: GuestQdisc + 'static,
        F: Fn(&mut Words<'_>, Setting) -> Result<Q, GrammarError> + Send + Sync + 'static,
    {
        let known = self.qdiscs.iter().map(|kind| kind.name());
        check_name(name, KINDS.into_iter().chain(BEFORE_KINDS).chain(known))?;
        self.qdiscs.push(GuestKind::new(name, make));
        Ok(self)
    }

    /// Adds a loss model: `make` reads the words behind its name and makes one, which each direction of
    /// each link has for itself. Files name it as `loss = "NAME WORDS"`.
    ///
    /// # Errors
    /// When the name does not fit or means something already.
    pub fn loss_model<M, F>(&mut self, name: &str, make: F) -> Result<&mut Self, NameError>
    where
        M: LossModel + 'static,
        F: Fn(&[&str]) -> Result<M, String> + Send + Sync + 'static,
    {
        let known = self.loss_models.iter().map(|kind| kind.name());
        check_name(name, LOSSES.into_iter().chain(known))?;
        self.loss_models.push(LossKind::new(name, move |words| Ok(Box::new(make(words)?))));
        Ok(self)
    }

    /// Adds an application: `make` reads the words behind its name, and says what the flows are. Files
    /// name it as `app = "NAME WORDS"`.
    ///
    /// # Errors
    /// When the name does not fit or means something already.
    pub fn application<A, F>(&mut self, name: &str, make: F) -> Result<&mut Self, NameError>
    where
        A: Application + 'static,
        F: Fn(&[&str]) -> Result<A, String> + Send + Sync + 'static,
    {
        let known = self.applications.iter().map(|kind| kind.name());
        check_name(name, APPLICATIONS.into_iter().chain(known))?;
        self.applications.push(ApplicationKind::new(name, move |words| Ok(Box::new(make(words)?))));
        Ok(self)
    }

    /// Says which version of itself the user's code called `name` is, in any words. Results of another
    /// version are not gone on with (`resume`).
    pub fn version(&mut self, name: &str, version: &str) -> &mut Self {
        self.versions.insert(name.to_owned(), version.to_owned());
        self
    }

    /// The qdiscs of the user.
    pub(crate) fn qdiscs(&self) -> &[GuestKind] {
        &self.qdiscs
    }

    /// The user's loss model of this name.
    pub(crate) fn loss_model_called(&self, name: &str) -> Option<LossKind> {
        self.loss_models.iter().copied().find(|kind| kind.name() == name)
    }

    /// What was said of versions.
    pub(crate) fn versions(&self) -> &BTreeMap<String, String> {
        &self.versions
    }

    /// The user's application of this name.
    pub(crate) fn application_called(&self, name: &str) -> Option<ApplicationKind> {
        self.applications.iter().copied().find(|kind| kind.name() == name)
    }

    /// The congestion control called `name`, ours or the product's.
    pub(crate) fn find_congestion_control(&self, name: &str) -> Option<Algorithm> {
        let own = self.congestion_controls.get(name).copied().map(Algorithm::Guest);
        own.or_else(|| Algorithm::by_name(name))
    }

    /// What congestion controls are called, for messages.
    pub(crate) fn congestion_control_names(&self) -> Vec<&'static str> {
        let own = self.congestion_controls.keys().copied();
        Algorithm::ALL.map(Algorithm::name).into_iter().chain(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::FlowPlace;
    use crate::plan::Experiment;
    use apps::{App, TcpSend, TcpSink};
    use datapath::qdisc::fifo::{Fifo, FifoKind};
    use datapath::rng::Rng;
    use datapath::units::Instant;
    use std::sync::atomic::AtomicBool;

    const TWO: &str = r#"
        schema = 1
        name = "two"
        duration = "2s"
        [nodes]
        a = {}
        b = {}
        [links.wire]
        ends = ["a", "b"]
        rate = "10mbit"
        rtt = "20ms"
        loss = "LOSS"
        [qdisc]
        "a.wire" = QDISC
        [flows.transfer]
        app = "bulk"
        from = "a"
        to = "b"
    "#;

    fn two(loss: &str, qdisc: &str) -> String {
        TWO.replace("LOSS", loss).replace("QDISC", qdisc)
    }

    /// `pfifo` by another name, and a model that loses every n-th packet.
    fn registry() -> Registry {
        let mut registry = Registry::new();
        let short = |words: &mut Words<'_>, _: Setting| {
            let mut limit = 5;
            while let Some(word) = words.next() {
                let "limit" = word.text else { return Err(word.unknown("short", &["limit"])) };
                let value = words.value(word)?;
                limit = value.text.parse().map_err(|_| value.illegal("limit"))?;
            }
            Ok(Fifo::new(FifoKind::Packets(limit)))
        };
        registry.qdisc("short", short).unwrap();
        registry
            .loss_model("nth", |words| {
                let [n] = words else { return Err("say which".into()) };
                Ok(Nth(n.parse().map_err(|_| "that is no number")?, 0))
            })
            .unwrap();
        registry
    }

    #[derive(Clone)]
    struct Nth(u64, u64);

    impl LossModel for Nth {
        fn strikes(&mut self, _: Instant, _: &datapath::packet::Packet, _: &mut Rng) -> bool {
            self.1 += 1;
            self.1.is_multiple_of(self.0)
        }

        fn boxed_clone(&self) -> Box<dyn LossModel> {
            Box::new(self.clone())
        }
    }

    fn fingerprint(experiment: &Experiment, threads: usize) -> u64 {
        let stop = AtomicBool::new(false);
        let options = crate::run::Options { threads, ..crate::run::Options::silent(&stop) };
        let points = crate::run::run(experiment, &options, &|_, _, _| Ok(())).unwrap();
        points[0].runs[0].fingerprint
    }

    #[test]
    fn a_guest_qdisc_is_as_good_as_a_built_in_one() {
        let run = |qdisc: &str, threads| {
            fingerprint(&registry().parse("two", &two("0%", qdisc), &[]).unwrap(), threads)
        };
        let built_in = run("\"pfifo limit 30\"", 1);
        assert_eq!(run("\"short limit 30\"", 1), built_in);
        assert_eq!(run("\"short limit 30\"", 2), built_in);
        // Nothing leaves a queue without room.
        assert_ne!(run("\"short limit 0\"", 1), built_in);
        // At the root, or below a class.
        let tree = r#"["root handle 1: prio", "parent 1:2 short limit 30"]"#;
        assert_eq!(run(tree, 1), run(&tree.replace("short", "pfifo"), 1));
    }

    /// The product's own bulk flow, by another name.
    struct Lots;

    impl Application for Lots {
        fn ends(&self, place: &FlowPlace) -> (Box<dyn App>, Box<dyn App>) {
            let sender = TcpSend::bulk(place.local, place.remote, place.client.clone());
            (Box::new(sender), Box::new(TcpSink::new(place.remote, place.server.clone())))
        }
    }

    #[test]
    fn a_guest_application_is_as_good_as_a_built_in_one() {
        let mut registry = registry();
        let lots = |words: &[&str]| match words {
            ["of", "it"] => Ok(Lots),
            _ => Err("of what?".into()),
        };
        registry.application("lots", lots).unwrap();
        let text = two("nth 50", "\"pfifo\"");
        let run = |app: &str| {
            let text = text.replace("\"bulk\"", &format!("\"{app}\""));
            registry.parse("two", &text, &[]).map(|experiment| fingerprint(&experiment, 1))
        };
        assert_eq!(run("lots of it").unwrap(), run("bulk").unwrap());
        let fault = run("lots").unwrap_err();
        assert_eq!(fault.0[0].message, "lots: of what?");
        let taken = registry.application("ping", lots).map(drop).unwrap_err();
        assert_eq!(taken, NameError::Taken("ping".to_owned()));
    }

    #[test]
    fn another_version_is_another_plan() {
        let identity = |version: &str| {
            let mut registry = registry();
            registry.version("short", version);
            let experiment = registry.parse("two", &two("0%", "\"short\""), &[]).unwrap();
            let nothing = crate::trace::TraceOutputs::default();
            crate::output::record::identity(&experiment.base, &nothing)
        };
        assert_eq!(identity("1"), identity("1"));
        assert_ne!(identity("1"), identity("2"));
    }

    #[test]
    fn a_guest_loss_model_is_fresh_for_each_run() {
        let text = two("nth 50", "\"pfifo\"");
        let experiment = registry().parse("two", &text, &[]).unwrap();
        assert_eq!(experiment.base.links[0].directions[0].loss, 0);
        let first = fingerprint(&experiment, 1);
        assert_eq!(fingerprint(&experiment, 2), first);
        let other = registry().parse("two", &two("nth 51", "\"pfifo\""), &[]).unwrap();
        assert_ne!(fingerprint(&other, 1), first);
    }

    #[test]
    fn what_a_guest_says_of_its_words_is_said_at_their_place() {
        let registry = registry();
        let fault = |loss: &str, qdisc: &str| {
            let faults = registry.parse("two", &two(loss, qdisc), &[]).unwrap_err();
            let one = &faults.0[0];
            (one.position.unwrap(), one.message.clone(), one.help.clone().unwrap_or_default())
        };
        let qdisc = fault("0%", "\"short limt 3\"");
        assert_eq!(qdisc.0, (14, 27));
        assert_eq!(qdisc.1, "short: unknown parameter \"limt\"");
        assert_eq!(qdisc.2, "did you mean \"limit\"?");
        assert_eq!(fault("0%", "\"shrot\"").2, "did you mean \"short\"?");
        let loss = fault("nth", "\"pfifo\"");
        assert_eq!((loss.0, loss.1.as_str()), ((12, 16), "nth: say which"));
        // Without the registry they mean nothing.
        assert!(Experiment::parse("two", &two("nth 5", "\"pfifo\""), &[]).is_err());
        assert!(Experiment::parse("two", &two("0%", "\"short\""), &[]).is_err());
    }

    #[test]
    fn names_are_nobody_elses() {
        let mut registry = registry();
        let fifo = |_: &mut Words<'_>, _: Setting| Ok(Fifo::new(FifoKind::Packets(1)));
        for name in ["short", "cake", "root", "filter"] {
            let taken = registry.qdisc(name, fifo).map(drop).unwrap_err();
            assert_eq!(taken, NameError::Taken(name.to_owned()));
        }
        for name in ["", "two words", "1st", "sixteen-letters-", "x:"] {
            let unfit = registry.qdisc(name, fifo).map(drop).unwrap_err();
            assert_eq!(unfit, NameError::Invalid(name.to_owned()));
        }
        for name in ["nth", "gemodel"] {
            let taken = registry.loss_model(name, |_| Ok(Nth(1, 0))).map(drop).unwrap_err();
            assert_eq!(taken, NameError::Taken(name.to_owned()));
        }
    }
}
