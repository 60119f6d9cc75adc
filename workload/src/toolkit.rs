//! Libraries of the CUDA toolkit, opened where they are installed. Nothing of the toolkit is needed to build.
#![expect(unsafe_code, reason = "opens libraries of the CUDA toolkit and looks up their functions")]

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use libloading::Library;

use crate::Result;

/// Where the toolkit's installer puts its libraries, which the system may not search.
const FOLDER: &str = "/usr/local/cuda/lib64";

/// An open library of the toolkit.
pub(crate) struct Toolkit {
    library: Library,
    /// The name or the path that it was found by.
    pub name: String,
}

impl Toolkit {
    /// Opens the newest `lib<stem>` of CUDA 13 and 12 that the system or the toolkit's folder has; this variable in the
    /// environment names another.
    pub fn open(stem: &str, variable: &str) -> Result<Self> {
        let candidates: Vec<PathBuf> = match std::env::var_os(variable) {
            Some(path) => vec![path.into()],
            None => {
                let names = [".so.13", ".so.12", ".so"].map(|suffix| format!("lib{stem}{suffix}"));
                let folders = ["", FOLDER].map(PathBuf::from);
                folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name))).collect()
            }
        };
        let mut reasons = Vec::new();
        for path in candidates {
            // SAFETY: opens a library of the CUDA toolkit, or one that the user named; its initialisers are trusted.
            match unsafe { Library::new(&path) } {
                Ok(library) => return Ok(Self { library, name: path.display().to_string() }),
                Err(error) => reasons.push(format!("\n  {}: {error}", path.display())),
            }
        }
        Err(format!(
            "lib{stem} is not installed: install the CUDA toolkit, or set {variable} to the library{}",
            reasons.concat()
        ))
    }

    /// Opens a library beside this one, which finds it open then, whatever the system searches. None where this one was
    /// found by its name.
    pub fn open_beside(&self, file: &str) -> Option<Library> {
        let folder = Path::new(&self.name).parent().filter(|folder| folder.is_absolute())?;
        // SAFETY: opens a library of the CUDA toolkit; its initialisers are trusted.
        unsafe { Library::new(folder.join(file)) }.ok()
    }

    /// The address of a function.
    pub fn symbol(&self, name: &str) -> Result<*const c_void> {
        // SAFETY: the type is that of an address; it is only called after a cast to its signature.
        let address = unsafe { self.library.get::<*const c_void>(name.as_bytes()) };
        address.map(|address| *address).map_err(|error| format!("{} has no {name}: {error}", self.name))
    }
}

/// Calls a function of an open library by its name: `call!(library, "cudaFree", (a => u64))`. Gives the code that it
/// returns as an error, unless that is 0. The types must be those of the library's header.
macro_rules! call {
    ($library:expr, $name:literal, ($($value:expr => $type:ty),* $(,)?)) => {{
        type Signature = unsafe extern "C" fn($($type),*) -> i32;
        $library.symbol($name).and_then(|address| {
            // SAFETY: the library's header declares the function of this name with this signature.
            let call = unsafe { std::mem::transmute::<*const std::ffi::c_void, Signature>(address) };
            // SAFETY: handles are alive, and memory is large enough and outlives the work; the callers see to that.
            match unsafe { call($($value),*) } {
                0 => Ok(()),
                code => Err(format!("{} returned {code}", $name)),
            }
        })
    }};
}
pub(crate) use call;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_library_is_an_error_that_says_what_was_tried_and_what_helps() {
        let error = Toolkit::open("nobody_has_this", "CUPROF_NO_SUCH_VARIABLE").err().unwrap();
        for part in
            ["libnobody_has_this is not installed", "CUPROF_NO_SUCH_VARIABLE", "/usr/local/cuda/lib64/"]
        {
            assert!(error.contains(part), "{error}");
        }
    }
}
