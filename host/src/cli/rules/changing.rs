//! What commands that change installed rules share: where, from which registries, whether the user agrees.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use super::Context;
use crate::output::{Failure, style, styled};
use crate::registry::bundled_files;
use crate::registry::client::{Manner, harmless};
use crate::registry::install::{self, Applied, Moves, Plan, Present, Registries, Scope, Step};
use crate::registry::key::fingerprint;
use crate::registry::metadata::NumericsClass;
use crate::registry::trust::{Acquaintance, BUNDLED};
use crate::registry::verify::Publisher;
use crate::registry::wanted::Wanted;

/// Times that a plan is made anew because another process was faster.
const MOST_ATTEMPTS: usize = 200;

/// Which rules are meant: a project's or the user's.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ScopeArguments {
    /// Project whose rules are meant [default: the nearest folder from here upward with dd-rules.toml,
    /// dd-rules.lock or delegate-doctor.toml; without one, the rules of this user]
    #[arg(long, value_name = "DIR", conflicts_with = "user")]
    project: Option<PathBuf>,
    /// The rules of this user, also inside of a project
    #[arg(long)]
    user: bool,
}

impl ScopeArguments {
    pub(super) fn scope(&self, context: &Context) -> Result<Scope, Failure> {
        if let Some(folder) = &self.project {
            if !folder.is_dir() {
                return Err(Failure::new(format!("There is no folder `{}`", folder.display())));
            }
            return Ok(Scope::project(&std::path::absolute(folder).unwrap_or_else(|_| folder.clone())));
        }
        let user = Scope::of_user(&context.common.folders.rules());
        if self.user {
            return Ok(user);
        }
        let here =
            std::env::current_dir().map_err(|error| Failure::with_cause("Cannot tell the current folder", error))?;
        Ok(Scope::of_project(&here).unwrap_or(user))
    }
}

/// Whether hosts are asked.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct NetworkArguments {
    /// Ask no host: work with what was downloaded before
    #[arg(long)]
    pub(super) offline: bool,
}

/// What the user agrees to beforehand.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct AgreeArguments {
    /// Trust publishers who sign with this key, without asking: its fingerprint, or at least the first 8 digits
    #[arg(long, value_name = "KEY")]
    trust: Vec<String>,
    /// Take rules from a registry that only the lockfile names, without asking: the SHA-256 of its root, or at least
    /// the first 16 digits
    #[arg(long, value_name = "SHA256")]
    trust_registry: Vec<String>,
    /// Agree to rules that claim less about numbers than their versions before
    #[arg(long)]
    yes: bool,
    /// Also versions that their publisher took back
    #[arg(long)]
    pub(super) allow_yanked: bool,
}

impl AgreeArguments {
    /// True when the user named a key of the publisher.
    pub(super) fn names(&self, publisher: &Publisher) -> bool {
        let digits = |text: &str| text.chars().filter(|c| *c != '-').collect::<String>().to_ascii_lowercase();
        let named = |key: &String| {
            self.trust.iter().map(|typed| digits(typed)).any(|typed| typed.len() >= 8 && key.starts_with(&typed))
        };
        publisher.keys.iter().any(named)
    }
}

/// Which rules a command is about, and whom it may ask.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PlaceArguments {
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    scope: ScopeArguments,
}

impl PlaceArguments {
    /// The place, and the registries of the user.
    pub(super) fn open(&self, context: &Context) -> Result<(Scope, Registries), Failure> {
        Ok((self.scope.scope(context)?, registries(context, self.network.offline)?))
    }
}

/// The registries of the user.
pub(super) fn registries(context: &Context, offline: bool) -> Result<Registries, Failure> {
    let manner = Manner { offline, ..Manner::default() };
    Ok(Registries::new(context.common.folders.rules(), manner, crate::clock::time_of_day(), bundled_files())?)
}

/// Makes a plan for changed wishes, asks what has to be asked, and applies it. Gives the plan that was applied.
pub(super) fn change(
    context: &Context,
    registries: &mut Registries,
    scope: &Scope,
    agree: &AgreeArguments,
    moves: &Moves,
    dry_run: bool,
    wish: &dyn Fn(&mut Registries, &Present, &mut Wanted) -> Result<(), Failure>,
) -> Result<Plan, Failure> {
    for _ in 0..MOST_ATTEMPTS {
        let present = Present::read(scope)?;
        let mut wanted = present.wanted.clone();
        wish(registries, &present, &mut wanted)?;
        let plan = plan_with_consent(agree, registries, present, wanted, moves)?;
        warn(context, registries);
        if dry_run {
            return Ok(plan);
        }
        for (registry, publisher, acquaintance) in plan.strangers(registries)? {
            agree_to_publisher(agree, registries, &registry, &publisher, acquaintance, &plan)?;
        }
        agree_to_claims(agree, registries, &plan)?;
        warn_of_unreviewed(context, &plan);
        let applied = plan.apply(registries, scope)?;
        warn(context, registries);
        match applied {
            Applied::Done => return Ok(plan),
            Applied::Overtaken => {}
        }
    }
    Err(Failure::new(format!("Other processes keep changing the rules {}", scope.told()))
        .hint("Wait until they are done, and run the command again"))
}

/// Makes a plan, and asks about registries that only the lockfile names.
pub(super) fn plan_with_consent(
    agree: &AgreeArguments,
    registries: &mut Registries,
    present: Present,
    wanted: Wanted,
    moves: &Moves,
) -> Result<Plan, Failure> {
    registries.agreed_roots.extend(agree.trust_registry.iter().cloned());
    loop {
        match install::plan(registries, present.clone(), wanted.clone(), moves) {
            Err(error @ install::Error::NewRegistry { .. }) if can_ask() => {
                let question = format!(
                    "{}.\nCompare it with the one on the registry's page. Take rules from it? [y/N] ",
                    harmless(&error.to_string())
                );
                let install::Error::NewRegistry { sha256, .. } = &error else { return Err(error.into()) };
                if !ask(&question)?.eq_ignore_ascii_case("y") || registries.agreed_roots.contains(sha256) {
                    return Err(error.into());
                }
                registries.agreed_roots.push(sha256.clone());
            }
            other => return Ok(other?),
        }
    }
}

/// Shows what the registries made the tool warn of, once.
pub(super) fn warn(context: &Context, registries: &mut Registries) {
    for warning in registries.warnings.drain(..) {
        context.printer.warning(&harmless(&warning));
    }
}

/// Says which rules come without a review, also where it was somebody else who allowed it.
pub(super) fn warn_of_unreviewed(context: &Context, plan: &Plan) {
    for rule in plan.unreviewed() {
        let (name, version) = (&rule.name, &rule.version);
        context.printer.warning(&format!(
            "`{name}` {version} was not reviewed by the maintainers of `{}`; `allow-unreviewed` lets it in",
            rule.registry
        ));
    }
}

fn agree_to_publisher(
    agree: &AgreeArguments,
    registries: &mut Registries,
    registry: &str,
    publisher: &Publisher,
    acquaintance: Acquaintance,
    plan: &Plan,
) -> Result<(), Failure> {
    let id = registries.registry(registry)?.pin().id();
    if agree.names(publisher) {
        return Ok(registries.trust_publisher(&id, publisher)?);
    }
    let prints: Vec<String> = publisher.keys.iter().map(|key| fingerprint(key)).collect();
    let who = match acquaintance {
        Acquaintance::OtherKeys => {
            format!("The publisher `{}` of `{registry}` signs with other keys than before", publisher.name)
        }
        _ => format!("The publisher `{}` of `{registry}` is new to you", publisher.name),
    };
    let refused = || {
        let prints = prints.join(", ");
        Failure::new(format!("{who}; its keys: {prints}")).hint(format!(
            "Compare the fingerprint with the one that the publisher shows, then say `--trust {}`",
            publisher.keys.first().map(|key| key.chars().take(16).collect::<String>()).unwrap_or_default()
        ))
    };
    if !can_ask() {
        return Err(refused());
    }
    let mut text = format!("{}\n", styled(style::HEADING, &who));
    for print in &prints {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  key    {print}");
    }
    for step in plan.steps.iter().filter(|step| step.registry == registry && step.new.role.name == publisher.name) {
        let _ = writeln!(text, "  rule   {}", told(step));
    }
    text.push_str("Rules run in a sandbox without access to this machine; every repair is proven before it counts.\nTrust this publisher? [y/N] ");
    if ask(&text)?.eq_ignore_ascii_case("y") { Ok(registries.trust_publisher(&id, publisher)?) } else { Err(refused()) }
}

/// A rule of a plan in a line: name, version, class, title.
fn told(step: &Step) -> String {
    let Some(release) = &step.release else { return format!("{} {}", step.new.name, step.new.version) };
    let (class, title) = (release.record.numerics.name(), harmless(&release.record.title));
    format!("{} {}, {class}: {title}", step.new.name, step.new.version)
}

fn agree_to_claims(agree: &AgreeArguments, registries: &mut Registries, plan: &Plan) -> Result<(), Failure> {
    for step in &plan.steps {
        let (Some(release), Some(old)) = (&step.release, &step.old) else { continue };
        if old.version == release.version || old.registry != step.registry {
            continue;
        }
        let releases = registries.view(&step.registry)?.releases(&old.name)?;
        let Some(before) = releases.iter().find(|release| release.version == old.version) else { continue };
        let (before, now) = (before.record.numerics, release.record.numerics);
        if weight(now) <= weight(before) || agree.yes {
            continue;
        }
        let what = format!(
            "`{}` {} is {}, and {} was {}",
            step.new.name,
            release.version,
            now.name(),
            old.version,
            before.name()
        );
        let refused = || Failure::new(what.clone()).hint("Agree with `--yes`, or keep the version with `rules pin`");
        if !can_ask() || !ask(&format!("{what}. Take it? [y/N] "))?.eq_ignore_ascii_case("y") {
            return Err(refused());
        }
    }
    Ok(())
}

/// The less a class promises, the more it weighs.
fn weight(class: NumericsClass) -> u8 {
    match class {
        NumericsClass::Exact => 0,
        NumericsClass::Tolerant => 1,
        NumericsClass::Corrective => 2,
    }
}

/// True when there is somebody to ask.
pub(in crate::cli) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on stderr and reads a line.
pub(in crate::cli) fn ask(text: &str) -> Result<String, Failure> {
    use std::io::Write as _;
    let mut line = String::new();
    let asked = anstream::stderr().write_all(text.as_bytes()).and_then(|()| anstream::stderr().flush());
    asked
        .and_then(|()| std::io::stdin().lock().read_line(&mut line))
        .map_err(|error| Failure::with_cause("Failed to ask", error))?;
    Ok(line.trim().to_owned())
}

/// What a plan changes, a line each.
pub(super) fn difference(plan: &Plan) -> String {
    let mut text = String::new();
    for step in plan.steps.iter().filter(|step| step.changes()) {
        let new = &step.new;
        let from = if step.registry == BUNDLED { String::new() } else { format!("  from {}", step.registry) };
        let review = if new.reviewed { "" } else { "  not reviewed" };
        let pinned = if new.pinned { "  pinned" } else { "" };
        // Writing to a string cannot fail.
        let _ = match &step.old {
            None => writeln!(text, "{} {} {}{from}{review}{pinned}", styled(style::GOOD, "+"), new.name, new.version),
            Some(old) if old.registry != new.registry => {
                let before = &old.registry;
                let mark = styled(style::HEADING, "~");
                writeln!(
                    text,
                    "{mark} {} {} from {before} → {} from {}{review}{pinned}",
                    new.name, old.version, new.version, new.registry
                )
            }
            Some(old) if old.version == new.version => {
                writeln!(text, "{} {} {}{from}{review}{pinned}", styled(style::HEADING, "~"), new.name, new.version)
            }
            Some(old) => {
                writeln!(
                    text,
                    "{} {} {} → {}{from}{review}{pinned}",
                    styled(style::HEADING, "~"),
                    new.name,
                    old.version,
                    new.version
                )
            }
        };
    }
    for old in &plan.removed {
        let _ = writeln!(text, "{} {} {}", styled(style::ERROR, "-"), old.name, old.version);
    }
    text
}
