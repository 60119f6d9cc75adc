//! What a measurement is varied over, what the measured code returns, and values of collectors.

use std::fmt;

/// A value of a parameter or of a collector.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A real number.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(String),
}

impl Value {
    /// The value as a number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64), // CAST: above 2^53 the last digits do not matter to statistics
            Self::Real(value) => Some(*value),
            Self::Flag(_) | Self::Text(_) => None,
        }
    }

    /// As JSON; a number that JSON has no word for is null.
    pub(super) fn json(&self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Real(value) if value.is_finite() => format!("{value:?}"),
            Self::Real(_) => "null".to_owned(),
            Self::Flag(value) => value.to_string(),
            Self::Text(text) => json_text(text),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            // With an exponent where it has many digits.
            Self::Real(value) if *value != 0.0 && !(1e-5..1e16).contains(&value.abs()) => {
                write!(f, "{value:?}")
            }
            Self::Real(value) => value.fmt(f),
            Self::Flag(value) => value.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A text in quotes, as JSON has it.
pub(super) fn json_text(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            c if c.is_control() => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

/// A type whose values can be parameters: numbers, `bool`, texts. A program's own type says what it is in a table.
pub trait Parameter {
    /// The value as tables have it.
    fn value(&self) -> Value;
}

macro_rules! parameters {
    ($($type:ty: |$value:ident| $expression:expr;)*) => { $(
        impl Parameter for $type {
            fn value(&self) -> Value {
                let $value = self;
                $expression
            }
        }

        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                value.value()
            }
        }
    )* };
}

parameters! {
    i8: |v| Value::Int((*v).into());
    i16: |v| Value::Int((*v).into());
    i32: |v| Value::Int((*v).into());
    i64: |v| Value::Int(*v);
    u8: |v| Value::Int((*v).into());
    u16: |v| Value::Int((*v).into());
    u32: |v| Value::Int((*v).into());
    u64: |v| i64::try_from(*v).map_or(Value::Real(*v as f64), Value::Int); // CAST: beyond i64, where digits are lost
    usize: |v| (*v as u64).value(); // CAST: 64 bits at most
    isize: |v| Value::Int(*v as i64); // CAST: 64 bits at most
    f32: |v| Value::Real((*v).into());
    f64: |v| Value::Real(*v);
    bool: |v| Value::Flag(*v);
    &str: |v| Value::Text((*v).to_owned());
    String: |v| Value::Text(v.clone());
}

/// What a measurement is repeated for: a number, a text, a tuple of these, or a struct whose fields become columns.
///
/// ```
/// use cuprof::bench::Config;
///
/// struct Gemm {
///     n: usize,
///     half: bool,
/// }
/// cuprof::config_columns!(Gemm { n, half });
///
/// let columns = Gemm { n: 512, half: true }.parameters();
/// assert_eq!(columns[0], ("n".to_owned(), 512_usize.into()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no configuration",
    note = "for a struct, write `cuprof::config_columns!(Type {{ field, … }});` beside it",
    note = "configurations are handed over: `configs(sizes)` and not `configs(&sizes)`"
)]
pub trait Config {
    /// The parameters with their names. A configuration may lack some that others have.
    fn parameters(&self) -> Vec<(String, Value)>;
}

impl<P: Parameter> Config for P {
    fn parameters(&self) -> Vec<(String, Value)> {
        vec![("config".to_owned(), self.value())]
    }
}

/// A measurement without parameters.
impl Config for () {
    fn parameters(&self) -> Vec<(String, Value)> {
        Vec::new()
    }
}

macro_rules! tuples {
    ($(($($type:ident $index:tt),+))*) => { $(
        impl<$($type: Parameter),+> Config for ($($type,)+) {
            fn parameters(&self) -> Vec<(String, Value)> {
                vec![$((format!("config_{}", $index), self.$index.value())),+]
            }
        }
    )* };
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// Makes a struct a [`Config`](crate::bench::Config): the fields named here become columns.
#[macro_export]
macro_rules! config_columns {
    ($type:ty { $($field:ident),+ $(,)? }) => {
        impl $crate::bench::Config for $type {
            fn parameters(&self) -> ::std::vec::Vec<(::std::string::String, $crate::bench::Value)> {
                ::std::vec![$((
                    ::std::string::ToString::to_string(stringify!($field)),
                    $crate::bench::Parameter::value(&self.$field),
                )),+]
            }
        }
    };
}

/// What measured code may return: nothing, or a result whose error is recorded.
#[diagnostic::on_unimplemented(
    message = "measured work returns nothing or a `Result`, and not `{Self}`",
    note = "end the closure with `;`, or hand the value out in an `Ok`"
)]
pub trait Outcome {
    /// What went wrong, if something did.
    fn failure(&self) -> Option<String>;
}

impl Outcome for () {
    fn failure(&self) -> Option<String> {
        None
    }
}

impl<T, E: fmt::Display> Outcome for Result<T, E> {
    fn failure(&self) -> Option<String> {
        self.as_ref().err().map(ToString::to_string)
    }
}
