//! JUnit's XML, which CI systems show as tests.

use super::JoinKey;
use super::compared::{Compared, Row};
use super::text::{changed, interval_of, method};
use crate::summary::escaped::xml_escaped;

impl Compared {
    /// JUnit's XML: a test case for each row. SLOWER is a failure, INCOMPARABLE an error, INCONCLUSIVE is skipped; losses
    /// are an error of a case of their own.
    #[must_use]
    pub fn to_junit(&self) -> String {
        let lossy =
            [("base", &self.base), ("new", &self.new)].map(|(name, side)| (name, side, side.is_lossy));
        let lossy: Vec<_> = lossy.into_iter().filter(|(_, _, is_lossy)| *is_lossy).collect();
        let (failures, skipped) = (self.count("SLOWER"), self.count("INCONCLUSIVE"));
        let errors = self.count("INCOMPARABLE") + lossy.len();
        let tests = self.rows.len() + lossy.len();
        let counts =
            format!(r#"tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}""#);
        let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
        xml += &format!(
            "<testsuites {counts}>\n  <testsuite name=\"cuprof compare\" {counts}>\n    <properties>\n"
        );
        let sides =
            [("base", self.base.to_string()), ("new", self.new.to_string()), ("method", method(self))];
        let allowed = self.allowances().into_iter().map(|told| ("allowed", told));
        let notes = self.notes().into_iter().map(|told| ("note", told));
        for (name, value) in sides.into_iter().chain(notes).chain(allowed) {
            xml += &format!("      <property name=\"{name}\" value=\"{}\"/>\n", xml_escaped(&value));
        }
        xml += "    </properties>\n";
        for (name, side, _) in lossy {
            let causes =
                side.losses.iter().map(|lost| format!("{} {}: {}", lost.count, lost.cause, lost.meaning));
            let told: Vec<String> = causes.chain(side.warnings.iter().cloned()).collect();
            xml += &format!(
                "    <testcase classname=\"input\" name=\"{name} is whole\">\n      <error message=\"{}\"/>\n    </testcase>\n",
                xml_escaped(&told.join("; "))
            );
        }
        for row in &self.rows {
            xml += &self.case(row);
        }
        xml + "  </testsuite>\n</testsuites>\n"
    }

    fn case(&self, row: &Row) -> String {
        let class = row.key.get(JoinKey::Bench).unwrap_or("launches");
        let told = match (changed(row), interval_of(row)) {
            (change, interval) if interval.is_empty() => change,
            (change, interval) => format!("{change} ({interval})"),
        };
        let parts = [row.verdict().to_owned(), told, row.reason()];
        let message: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let message = xml_escaped(&message.join(": "));
        let element = match row.verdict() {
            "SLOWER" => format!("      <failure message=\"{message}\"/>\n"),
            "INCOMPARABLE" => format!("      <error message=\"{message}\"/>\n"),
            "INCONCLUSIVE" => format!("      <skipped message=\"{message}\"/>\n"),
            _ => String::new(),
        };
        let notes: Vec<String> =
            std::iter::once(message).chain(row.notes().iter().map(|note| xml_escaped(note))).collect();
        format!(
            "    <testcase classname=\"{}\" name=\"{}\">\n{element}      <system-out>{}</system-out>\n    </testcase>\n",
            xml_escaped(class),
            xml_escaped(&self.name_of(row)),
            notes.join("\n")
        )
    }
}
