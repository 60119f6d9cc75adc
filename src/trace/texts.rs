//! Payloads and arguments of ranges as the tables have them: text.

use std::fmt::Write as _;

use crate::channel::{ArgValue, Args, Payload};

/// The payload of an NVTX event; none without one.
pub(super) fn payload_text(payload: Payload) -> Option<String> {
    match payload {
        Payload::None => None,
        Payload::U64(value) => Some(value.to_string()),
        Payload::I64(value) => Some(value.to_string()),
        Payload::F64(value) => Some(value.to_string()),
    }
}

/// Typed arguments as a JSON object; none without arguments.
pub(super) fn args_json(args: &Args<'_>) -> Option<String> {
    if args.is_empty() {
        return None;
    }
    let mut json = String::from("{");
    for arg in args.iter() {
        if json.len() > 1 {
            json.push(',');
        }
        push_json_text(&mut json, arg.key);
        json.push(':');
        // Writing to a String cannot fail.
        let _ok = match arg.value {
            ArgValue::U64(value) => write!(json, "{value}"),
            ArgValue::I64(value) => write!(json, "{value}"),
            // JSON has no NaN and no infinity.
            ArgValue::F64(value) if !value.is_finite() => write!(json, "\"{value}\""),
            ArgValue::F64(value) => write!(json, "{value:?}"),
            ArgValue::Bool(value) => write!(json, "{value}"),
            ArgValue::Str(value) => {
                push_json_text(&mut json, value);
                Ok(())
            }
        };
    }
    json.push('}');
    Some(json)
}

fn push_json_text(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            character if character < ' ' => {
                let _ok = write!(json, "\\u{:04x}", u32::from(character));
            }
            character => json.push(character),
        }
    }
    json.push('"');
}
