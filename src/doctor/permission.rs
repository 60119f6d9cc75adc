//! Who may read hardware counters.

use super::machine::{Machine, RESTRICTS};
use super::{Finding, Severity, Topic};
use crate::error::shown;

/// Bits of a capability set, by their numbers in Linux.
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;

/// Whether counters can be read; tracing needs no permission.
pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    let finding = |severity, text: String| Finding::new(severity, Topic::Counters, text);
    let restricted = machine.params.as_deref().and_then(|params| {
        let value = params.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))?;
        Some(value.trim() != "0")
    });
    let found = match restricted {
        None => finding(
            Severity::Note,
            "it is not known who may read counters: /proc/driver/nvidia/params cannot be read".into(),
        ),
        Some(false) => finding(
            Severity::Ok,
            "every user may read counters (RmProfilingAdminOnly: 0 in /proc/driver/nvidia/params)".into(),
        ),
        Some(true) if has(machine, SYS_ADMIN) => finding(
            Severity::Ok,
            "only administrators may read counters, and this process is one (CAP_SYS_ADMIN)".into(),
        ),
        Some(true) => {
            let perfmon = has(machine, PERFMON);
            let text = "only administrators may read counters (RmProfilingAdminOnly: 1 in /proc/driver/nvidia/params)";
            let text = match perfmon {
                true => format!("{text}; this process has CAP_PERFMON, which newer drivers accept"),
                false => format!("{text}; tracing needs no permission"),
            };
            let severity = if perfmon { Severity::Note } else { Severity::Warning };
            finding(severity, text).with_remedy(remedy(machine))
        }
    };
    let set = machine
        .settings
        .iter()
        .map(|(file, line)| finding(Severity::Note, format!("it is set in {}: {line}", shown(file))));
    std::iter::once(found).chain(set).collect()
}

fn remedy(machine: &Machine) -> String {
    let mut remedy = match machine.container {
        Some("Kubernetes") => {
            "run the container with the capability SYS_ADMIN (securityContext.capabilities.add), or "
                .to_owned()
        }
        Some(_) => "run the container with --cap-add SYS_ADMIN, or ".to_owned(),
        None => "run as root, or ".to_owned(),
    };
    let file = machine
        .settings
        .first()
        .map_or_else(|| "a file in /etc/modprobe.d".to_owned(), |(file, _)| shown(file));
    let host = if machine.container.is_some() { " of the host" } else { "" };
    remedy += &format!(
        "have the administrator{host} put `options nvidia {RESTRICTS}=0` into {file} and load the driver again"
    );
    remedy
}

/// Whether the process has a capability now.
fn has(machine: &Machine, capability: u32) -> bool {
    let effective = machine.status.as_deref().and_then(|status| {
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    effective.is_some_and(|mask| mask >> capability & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(restricted: u32, capabilities: u64) -> Machine {
        Machine {
            params: Some(format!("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {restricted}\n")),
            status: Some(format!("Name:\tx\nCapPrm:\tffffffffffffffff\nCapEff:\t{capabilities:016x}\n")),
            ..Machine::default()
        }
    }

    fn told(machine: &Machine) -> String {
        findings(machine).iter().map(|finding| format!("{finding}\n")).collect()
    }

    #[test]
    fn counters_for_everybody_are_fine() {
        assert_eq!(
            told(&machine(0, 0)),
            "ok: counters: every user may read counters (RmProfilingAdminOnly: 0 in /proc/driver/nvidia/params)\n"
        );
    }

    #[test]
    fn an_administrator_may_read_them() {
        assert_eq!(
            told(&machine(1, 1 << SYS_ADMIN)),
            "ok: counters: only administrators may read counters, and this process is one (CAP_SYS_ADMIN)\n"
        );
    }

    #[test]
    fn others_are_told_what_to_ask_for_and_where_it_is_set() {
        let mut machine = machine(1, 0xa804_25fb & !(1 << SYS_ADMIN));
        machine.settings = vec![(
            "/etc/modprobe.d/nvidia.conf".into(),
            "options nvidia NVreg_RestrictProfilingToAdminUsers=1".into(),
        )];
        assert_eq!(
            told(&machine),
            "warning: counters: only administrators may read counters (RmProfilingAdminOnly: 1 in \
             /proc/driver/nvidia/params); tracing needs no permission\n  \
             run as root, or have the administrator put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into \
             /etc/modprobe.d/nvidia.conf and load the driver again\n\
             note: counters: it is set in /etc/modprobe.d/nvidia.conf: options nvidia \
             NVreg_RestrictProfilingToAdminUsers=1\n"
        );
    }

    #[test]
    fn in_a_container_the_remedy_is_the_containers() {
        let docker = Machine { container: Some("Docker"), ..machine(1, 0) };
        let text = told(&docker);
        assert!(text.contains("--cap-add SYS_ADMIN") && text.contains("administrator of the host"), "{text}");
        let kubernetes = Machine { container: Some("Kubernetes"), ..machine(1, 0) };
        assert!(told(&kubernetes).contains("securityContext"), "{}", told(&kubernetes));
    }

    #[test]
    fn the_lesser_capability_is_a_note() {
        let text = told(&machine(1, 1 << PERFMON));
        assert!(text.starts_with("note: counters:") && text.contains("CAP_PERFMON"), "{text}");
    }

    #[test]
    fn without_the_drivers_file_nothing_is_claimed() {
        let text = told(&Machine::default());
        assert!(text.starts_with("note: counters: it is not known"), "{text}");
    }
}
