//! System calls of the script: begun, waited for, come to their end.

use super::{Due, FOREVER, PATIENCE, Run, Step, Stop, call_text};
use crate::ast::{CallSpec, Micros};
use crate::harness::{CallId, FinishedCall};
use crate::show::seconds;

/// A call that waits while the script goes on.
pub(super) struct Pending<'a> {
    id: CallId,
    spec: &'a CallSpec,
    due: Due,
    /// When it was made.
    begun: Micros,
    /// When it is to return.
    end: Option<Micros>,
}

impl<'a> Run<'a> {
    pub(super) fn call(&mut self, spec: &'a CallSpec, due: Due) -> Step<()> {
        if spec.end.is_some() {
            self.await_idle(spec)?;
        } else if self.pending.is_some() {
            // Another call may wait beyond this one, but gets a while to come to its end.
            self.pass(self.now() + PATIENCE, |run| run.pending.is_none())?;
        }
        self.wait_for(due, "system call")?;
        let syscall = self.syscall(spec)?;
        let end = spec.end.map(|end| end + due.offset);
        let id = self.harness.start(syscall);
        let begun = Some(Pending { id, spec, due, begun: self.now(), end });
        if end.is_some() {
            self.pending = begun;
            return self.carry_on();
        }
        self.own = begun;
        self.carry_on()?;
        if self.own.is_none() {
            return Ok(());
        }
        // A call without an end that waits all the same: until a timeout of its own, perhaps.
        if !self.pass(self.now() + FOREVER, |run| run.own.is_none())? {
            if let Some(given_up) = self.own.take() {
                self.harness.cancel(given_up.id);
            }
            let reason = format!(
                "{} blocks, and the script gives no time at which it returns",
                call_text(spec)
            );
            let details = vec![range_of_time(spec)];
            return Err(self.fail(spec.pos, "time", reason, details));
        }
        Ok(())
    }

    /// Lets a call that still waits come to its end, if it does so soon: two with a time to return cannot wait at once.
    fn await_idle(&mut self, spec: &CallSpec) -> Step<()> {
        if self.pending.is_none()
            || self.pass(self.now() + PATIENCE, |run| run.pending.is_none())?
        {
            return Ok(());
        }
        let waiting = self.pending.as_ref().expect("just seen").spec;
        let reason = format!(
            "{} while {} of line {} is still blocked",
            call_text(spec),
            call_text(waiting),
            waiting.pos.line
        );
        Err(self.fail(spec.pos, "time", reason, Vec::new()))
    }

    /// At the end of a script no call may wait any more.
    pub(super) fn finish_pending(&mut self) -> Step<()> {
        if self.pending.is_some() {
            self.pass(self.now() + PATIENCE, |run| run.pending.is_none())?;
        }
        match &self.pending {
            None => Ok(()),
            Some(waiting) => {
                let reason = format!("{} has not returned", call_text(waiting.spec));
                Err(self.fail(waiting.spec.pos, "time", reason, Vec::new()))
            }
        }
    }

    /// Hears what the calls that waited return, if they have returned.
    pub(super) fn carry_on(&mut self) -> Step<()> {
        for own in [false, true] {
            let place = if own { &mut self.own } else { &mut self.pending };
            let Some(pending) = place else { continue };
            let Some(finished) = self.harness.finished(pending.id) else { continue };
            if let Some(pending) = place.take() {
                self.on_return(&pending, finished)?;
            }
        }
        Ok(())
    }

    fn on_return(&mut self, pending: &Pending<'a>, finished: FinishedCall) -> Step<()> {
        let text = call_text(pending.spec);
        let at = self.micros(finished.at);
        self.log.push(format!("{} {text} returns", seconds(at)));
        let checked = self.returned(pending.spec, finished.outcome);
        if let Err(Stop::Fail(mut failure)) = checked {
            // Lines below may have what it waited for, but they come after it has returned.
            let waited = at - pending.begun;
            if pending.end.is_none() && waited > 0 {
                let hint = format!(
                    "  it waited {} s before that, while no line below was reached;",
                    seconds(waited)
                );
                failure.details.splice(0..0, [hint, range_of_time(pending.spec)]);
            }
            if !self.settings.non_fatal_calls {
                return Err(Stop::Fail(failure));
            }
            self.warnings.push(*failure);
        } else {
            checked?;
        }
        let Some(end) = pending.end else { return Ok(()) };
        let due = Due { time: end, pos: pending.spec.pos, end: None, ..pending.due };
        let before = Some(pending.due.time);
        self.check_time(due, at, before, &format!("{text} returned"))
    }
}

/// How a script says that a call waits while later lines go on.
fn range_of_time(spec: &CallSpec) -> String {
    format!("  write `+0...0.100 {}(…)`, or O_NONBLOCK", spec.name)
}
