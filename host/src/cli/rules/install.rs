//! `rules install`, `update`, `remove`, `pin`, `unpin`: what is wanted, and what follows from it.

use super::Context;
use super::changing::{
    AgreeArguments, PlaceArguments, ScopeArguments, change, difference, plan_with_consent, registries, warn,
    warn_of_unreviewed,
};
use crate::output::{Exit, Failure};
use crate::registry::client::Policy;
use crate::registry::install::{self, Error, Moves, Present, Registries, Scope};
use crate::registry::lockfile;
use crate::registry::name::Reference;
use crate::registry::trust::BUNDLED;
use crate::registry::wanted::{Key, Wanted, Wish};

/// Install rules
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Install rules.\n\n\
        A rule is PUBLISHER/RULE in the default registry or REGISTRY:PUBLISHER/RULE, with @VERSION or @RANGE when \
        it is not to be the newest. In a project, `dd-rules.toml` and `dd-rules.lock` say what is used; elsewhere \
        the rule is installed for this user. Without a RULE, what the project wants is installed. Signatures, \
        hashes, versions seen before and the maintainers' review are always checked.",
    after_help = "\
Examples:
  delegate-doctor rules install dd-rules/softmax-layout
  delegate-doctor rules install community:acme/fix-boot@^1.2
  delegate-doctor rules install --locked     Exactly what dd-rules.lock says, or fail"
)]
pub(super) struct Arguments {
    /// What to install
    #[arg(value_name = "RULE")]
    rules: Vec<Reference>,
    /// Install exactly what the lockfile says; fail when it would have to change
    #[arg(long, conflicts_with = "rules")]
    locked: bool,
    /// Also when the maintainers of the registry have not reviewed it; the lockfile records it
    #[arg(long)]
    allow_unreviewed: bool,
    #[command(flatten)]
    agree: AgreeArguments,
    #[command(flatten)]
    place: PlaceArguments,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let (scope, mut registries) = arguments.place.open(context)?;
    if arguments.locked {
        return locked(arguments, context, &scope, &mut registries);
    }
    let moves = Moves {
        update: arguments.rules.iter().map(|reference| reference.rule.clone()).collect(),
        update_all: false,
        yanked: arguments.agree.allow_yanked,
    };
    let plan =
        change(context, &mut registries, &scope, &arguments.agree, &moves, false, &|registries, present, wanted| {
            begin(registries, &scope, present, wanted)?;
            for reference in &arguments.rules {
                let policy = Policy { unreviewed: arguments.allow_unreviewed, yanked: arguments.agree.allow_yanked };
                want(registries, &scope, wanted, reference, policy)?;
            }
            Ok(())
        })?;
    let text = difference(&plan);
    if text.is_empty() {
        let arrived = plan.steps.iter().filter(|step| step.release.is_some()).count();
        let what = match arrived {
            0 => "Everything is installed".to_owned(),
            1 => "1 rule was installed as locked, and everything is there".to_owned(),
            count => format!("{count} rules were installed as locked, and everything is there"),
        };
        context.printer.note(&format!("{what} {}", scope.told()));
    } else {
        Exit::of_write(context.printer.data(&text))?;
    }
    Ok(Exit::Answered)
}

/// A project's first file lists the bundled rules too, because a lockfile says exactly which rules are used.
fn begin(registries: &mut Registries, scope: &Scope, present: &Present, wanted: &mut Wanted) -> Result<(), Failure> {
    if !scope.is_project || present.lock.is_some() || !wanted.is_new() {
        return Ok(());
    }
    for release in install::bundled_names(registries)?.into_values() {
        let key = Key { registry: None, rule: release.rule.clone() };
        wanted.rules.insert(key, Wish { versions: compatible(&release.version), pin: None, unreviewed: false });
    }
    Ok(())
}

fn compatible(version: &semver::Version) -> semver::VersionReq {
    semver::VersionReq::parse(&format!("^{version}")).unwrap_or(semver::VersionReq::STAR)
}

/// Notes a wish for what a user typed.
fn want(
    registries: &mut Registries,
    scope: &Scope,
    wanted: &mut Wanted,
    reference: &Reference,
    policy: Policy,
) -> Result<(), Failure> {
    let registry = reference.registry.clone().unwrap_or_else(|| registries.default_registry().to_owned());
    wanted.without.retain(|rule| *rule != reference.rule);
    if !scope.is_project && registry == BUNDLED && reference.versions.is_none() {
        // The tool's own rules are used without being installed, in their newest version.
        let view = registries.view(BUNDLED)?;
        view.choose(&reference.rule, None, Policy::default())?;
        wanted.rules.retain(|key, _| key.rule != reference.rule);
        return Ok(());
    }
    let key = Key { registry: Some(registry).filter(|name| name != BUNDLED), rule: reference.rule.clone() };
    let before = wanted.rules.get(&key).cloned();
    let versions = match (&reference.versions, &before) {
        (Some(versions), _) => versions.clone(),
        (None, Some(before)) => before.versions.clone(),
        (None, None) => {
            let name = key.registry.as_deref().unwrap_or(BUNDLED);
            compatible(&registries.view(name)?.choose(&key.rule, None, policy)?.version)
        }
    };
    let unreviewed = policy.unreviewed || before.is_some_and(|before| before.unreviewed);
    wanted.rules.retain(|other, _| other.rule != key.rule);
    wanted.rules.insert(key, Wish { versions, pin: None, unreviewed });
    Ok(())
}

fn locked(
    arguments: &Arguments,
    context: &Context,
    scope: &Scope,
    registries: &mut Registries,
) -> Result<Exit, Failure> {
    let present = Present::read(scope)?;
    let lock = install::check_locked(scope, &present)?;
    let moves = Moves { yanked: arguments.agree.allow_yanked, ..Moves::default() };
    let wanted = present.wanted.clone();
    let plan = plan_with_consent(&arguments.agree, registries, present, wanted, &moves)?;
    warn(context, registries);
    for (registry, publisher, _) in plan.strangers(registries)? {
        if arguments.agree.names(&publisher) {
            let id = registries.registry(&registry)?.pin().id();
            registries.trust_publisher(&id, &publisher)?;
        }
    }
    plan.check_keys(registries)?;
    warn_of_unreviewed(context, &plan);
    if !plan.is_unchanged() {
        let why = format!("\n{}", difference(&plan).trim_end());
        return Err(Error::LockWouldChange { folder: scope.folder.clone(), why }.into());
    }
    let store = registries.store();
    for step in &plan.steps {
        if let Some(release) = step.release.as_ref().filter(|_| step.registry != BUNDLED) {
            registries.view(&step.registry)?.install(&store, release, step.unreviewed)?;
        }
    }
    for rule in &lock.rules {
        install::load(registries, rule, &scope.folder.join(lockfile::FILE_NAME))?;
    }
    warn(context, registries);
    context.printer.note(&format!(
        "{} installed exactly as locked {}",
        if lock.rules.len() == 1 { "1 rule is".to_owned() } else { format!("{} rules are", lock.rules.len()) },
        scope.told()
    ));
    Ok(Exit::Answered)
}

/// Update rules to the newest versions that are wanted
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor rules update                  Everything that is not pinned
  delegate-doctor rules update acme/fix-boot
  delegate-doctor rules update --dry-run        Show what would change")]
pub(super) struct Update {
    /// Only these rules
    #[arg(value_name = "RULE")]
    rules: Vec<Reference>,
    /// Change nothing, show what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    agree: AgreeArguments,
    #[command(flatten)]
    place: PlaceArguments,
}

pub(super) fn update(arguments: &Update, context: &Context) -> Result<Exit, Failure> {
    let (scope, mut registries) = arguments.place.open(context)?;
    let moves = Moves {
        update: arguments.rules.iter().map(|reference| reference.rule.clone()).collect(),
        update_all: arguments.rules.is_empty(),
        yanked: arguments.agree.allow_yanked,
    };
    let plan =
        change(context, &mut registries, &scope, &arguments.agree, &moves, arguments.dry_run, &|_, _, wanted| {
            arguments.rules.iter().try_for_each(|rule| is_wanted(&scope, wanted, rule).map(|_| ()))
        })?;
    let text = difference(&plan);
    if text.is_empty() {
        if plan.check_stuck().is_ok() {
            context.printer.note(&format!("Every rule {} is the newest one wanted", scope.told()));
        }
    } else {
        Exit::of_write(context.printer.data(&text))?;
    }
    // After the others were moved.
    plan.check_stuck()?;
    Ok(Exit::Answered)
}

/// The wish that a user means, by its name alone or with its registry.
fn is_wanted(scope: &Scope, wanted: &Wanted, typed: &Reference) -> Result<Key, Failure> {
    named_alone(typed)?;
    find(wanted, typed).ok_or_else(|| Error::NotThere { rule: typed.to_string(), place: scope.told() }.into())
}

fn find(wanted: &Wanted, typed: &Reference) -> Option<Key> {
    let (key, _) = wanted.find(&typed.rule)?;
    let registry = key.registry.as_deref().unwrap_or(BUNDLED);
    typed.registry.as_ref().is_none_or(|typed| typed == registry).then(|| key.clone())
}

/// Refuses a version where only the rule counts.
fn named_alone(typed: &Reference) -> Result<(), Failure> {
    if typed.versions.is_some() {
        return Err(Failure::new(format!("`{typed}` names a version, and only the rule counts here"))
            .hint("Leave out what begins with `@`"));
    }
    Ok(())
}

/// Remove rules
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor rules remove acme/fix-boot
  delegate-doctor rules remove dd-rules/softmax-layout --user    Do without a rule that comes with the tool")]
pub(super) struct Remove {
    /// What to remove
    #[arg(value_name = "RULE", required = true)]
    rules: Vec<Reference>,
    #[command(flatten)]
    scope: ScopeArguments,
}

pub(super) fn remove(arguments: &Remove, context: &Context) -> Result<Exit, Failure> {
    let scope = arguments.scope.scope(context)?;
    let mut registries = registries(context, true)?;
    let agree = AgreeArguments::default();
    let plan =
        change(context, &mut registries, &scope, &agree, &Moves::default(), false, &|registries, present, wanted| {
            begin(registries, &scope, present, wanted)?;
            for typed in &arguments.rules {
                named_alone(typed)?;
                if let Some(key) = find(wanted, typed) {
                    wanted.rules.remove(&key);
                    continue;
                }
                let rule = &typed.rule;
                let of_tool = typed.registry.as_ref().is_none_or(|registry| registry == BUNDLED);
                let mut names = install::bundled_names(registries)?.into_values();
                let bundled = of_tool && names.any(|release| release.rule == *rule);
                if scope.is_project || !bundled || wanted.without.contains(rule) {
                    return Err(Error::NotThere { rule: typed.to_string(), place: scope.told() }.into());
                }
                wanted.without.push(rule.clone());
                wanted.without.sort();
            }
            Ok(())
        })?;
    let mut text = difference(&plan);
    for typed in &arguments.rules {
        if !plan.removed.iter().any(|removed| removed.name == typed.rule) {
            text.push_str(&format!("- {}\n", typed.rule));
        }
    }
    Exit::of_write(context.printer.data(&text))?;
    Ok(Exit::Answered)
}

/// Keep a rule at a version
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor rules pin acme/fix-boot           At the version that is installed
  delegate-doctor rules pin acme/fix-boot@1.3.0")]
pub(super) struct Pin {
    /// The rule, with the version when it is to be another one than the installed
    #[arg(value_name = "RULE")]
    rule: Reference,
    #[command(flatten)]
    agree: AgreeArguments,
    #[command(flatten)]
    place: PlaceArguments,
}

pub(super) fn pin(arguments: &Pin, context: &Context) -> Result<Exit, Failure> {
    let (scope, mut registries) = arguments.place.open(context)?;
    let typed = &arguments.rule;
    let exact = typed.versions.as_ref().map(|versions| {
        let text = versions.to_string();
        let version = text.strip_prefix('=').and_then(|text| crate::registry::name::version(text).ok());
        version.ok_or_else(|| Failure::new(format!("`{text}` is a range, and a rule is pinned to one version")))
    });
    let exact = exact.transpose()?;
    let rule = Reference { versions: None, ..typed.clone() };
    set_pin(&scope, context, &mut registries, &rule, &arguments.agree, &|present, wish| {
        let installed = present.lock.as_ref().and_then(|lock| lock.rule(&typed.rule)).map(|rule| rule.version.clone());
        wish.pin = exact.clone().or(installed);
    })
}

/// Let a pinned rule be updated again
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor rules unpin acme/fix-boot")]
pub(super) struct Unpin {
    /// The rule
    #[arg(value_name = "RULE")]
    rule: Reference,
    #[command(flatten)]
    scope: ScopeArguments,
}

pub(super) fn unpin(arguments: &Unpin, context: &Context) -> Result<Exit, Failure> {
    let scope = arguments.scope.scope(context)?;
    let mut registries = registries(context, true)?;
    let agree = AgreeArguments::default();
    set_pin(&scope, context, &mut registries, &arguments.rule, &agree, &|_, wish| wish.pin = None)
}

fn set_pin(
    scope: &Scope,
    context: &Context,
    registries: &mut Registries,
    rule: &Reference,
    agree: &AgreeArguments,
    set: &dyn Fn(&Present, &mut Wish),
) -> Result<Exit, Failure> {
    let plan = change(context, registries, scope, agree, &Moves::default(), false, &|_, present, wanted| {
        let key = is_wanted(scope, wanted, rule)?;
        if let Some(wish) = wanted.rules.get_mut(&key) {
            set(present, wish);
        }
        Ok(())
    })?;
    Exit::of_write(context.printer.data(&difference(&plan)))?;
    Ok(Exit::Answered)
}
