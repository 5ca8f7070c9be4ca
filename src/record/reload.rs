//! SIGHUP: reads the configuration again. Applies the settings that can change during a recording, and reports the others.

use clap::FromArgMatches;
use toml::Value;
use trackiops_process::output::say;
use trackiops_store::RetentionPolicy;
use trackiops_tenants::Rules;

use crate::config::{Problems, Setting, Source};
use crate::record::args::Args;
use crate::tenant_rules::TenantRules;

/// Keys that may change during a recording. The others decide which probes run and what a row means, or are used only once. Filters cannot
/// change: a window, its health row and the journal's header have one filter, and the audit only runs without one.
const CHANGEABLE: [&str; 5] = [
    "retain",
    "retain-by-clock",
    "store-size",
    "requests-size",
    "tenants",
];

/// The values of these keys.
#[derive(Clone, Debug)]
pub struct Limits {
    pub keep: RetentionPolicy,
    pub requests_bytes: u64,
}

impl Limits {
    fn of(args: &Args) -> Self {
        Self {
            keep: args.retention_policy(),
            requests_bytes: args.requests_size,
        }
    }
}

/// The configuration of a recorder, which can be read again.
pub struct Reload {
    source: Source,
    settings: Vec<Setting>,
    pub limits: Limits,
    pub tenants: TenantRules,
}

/// The changes to apply.
#[derive(Default)]
pub struct Changes<'r> {
    pub limits: Option<&'r Limits>,
    pub tenants: Option<&'r TenantRules>,
}

impl Reload {
    /// Reads the configuration for the first time.
    pub fn begin(source: Source) -> anyhow::Result<(Args, Self)> {
        let read = match source.read() {
            Ok(read) => read,
            Err(problems) => return problems.fail(),
        };
        let args = Args::from_arg_matches(&read.matches)?;
        let reload = Self {
            source,
            settings: read.settings,
            limits: Limits::of(&args),
            tenants: TenantRules::of(args.tenants.as_deref())?,
        };
        Ok((args, reload))
    }

    /// Reads the configuration and the tenant rules again. Reports and returns the changes.
    pub fn again(&mut self) -> Changes<'_> {
        self.read_again().unwrap_or_default()
    }

    fn read_again(&mut self) -> Option<Changes<'_>> {
        let refused = |Problems(problems)| {
            problems.iter().for_each(say);
            say(
                "the configuration is not reloaded: recording goes on as before; correct it and send SIGHUP again",
            );
        };
        let read = self.source.read().map_err(refused).ok()?;
        let args = Args::from_arg_matches(&read.matches);
        let args = args
            .map_err(|error| refused(Problems(vec![error.to_string()])))
            .ok()?;
        let tenants = TenantRules::of(args.tenants.as_deref())
            .map_err(|error| refused(Problems(vec![format!("{error:#}")])))
            .ok()?;
        let are_tenants_new = !tenants.are(&self.tenants);
        let (mut has_changed, mut has_said) = (false, false);
        for (now, new) in self.settings.iter_mut().zip(read.settings) {
            if now.value == new.value {
                continue;
            }
            has_said = true;
            let Setting { key, value, origin } = &new;
            let (before, after) = (shown(&now.value), shown(value));
            if CHANGEABLE.contains(&key.as_str()) {
                say(format_args!(
                    "reloaded: {key} was {before} and is {after} ({origin})"
                ));
                has_changed = true;
                *now = new;
            } else {
                say(format_args!(
                    "not reloaded: {key} stays {before}; restart the recorder to make it {after} ({origin})"
                ));
            }
        }
        if are_tenants_new {
            has_said = true;
            let count = tenants.rules.as_ref().map_or(0, Rules::count);
            say(match count {
                0 => "reloaded: tenants have no rules any more".to_owned(),
                1 => "reloaded: tenants are named by one rule from now on".to_owned(),
                count => format!("reloaded: tenants are named by {count} rules from now on"),
            });
            self.tenants = tenants;
        }
        if !has_said {
            say("reloaded: nothing has changed");
        }
        if has_changed {
            self.limits = Limits::of(&args);
        }
        Some(Changes {
            limits: has_changed.then_some(&self.limits),
            tenants: are_tenants_new.then_some(&self.tenants),
        })
    }
}

fn shown(value: &Option<Value>) -> String {
    value
        .as_ref()
        .map_or("not set".to_owned(), Value::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    #[test]
    fn what_may_change_are_flags_and_the_example_lists_them() {
        let command = Args::augment_args(clap::Command::new("record"));
        for key in CHANGEABLE {
            let is_flag = |arg: &clap::Arg| arg.get_long() == Some(key);
            assert!(command.get_arguments().any(is_flag), "{key}");
        }
        let example = include_str!("../../contrib/trackiops.toml");
        assert!(example.contains(&CHANGEABLE.join(", ")));
    }
}
