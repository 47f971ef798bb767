//! What the user pointed at: a `.py` file, `module:callable`, or a `.pt2`.
//!
//! In: the text of the command line. Out: [`Model`], checked as far as a look at the file system can.

use std::path::{Path, PathBuf};

use crate::hint::Hint;
use crate::torch::protocol::ModelSource;

/// A model that can be exported.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// what a person calls it: file stem or callable
    pub name: String,
    /// as typed
    pub given: String,
    /// for the worker
    pub source: ModelSource,
}

/// Why the argument is no model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// nothing given
    #[error("The model argument is empty")]
    Empty,
    /// a path that does not exist
    #[error("There is no model at `{0}`")]
    Missing(PathBuf),
    /// a folder
    #[error("`{0}` is a folder, not a model")]
    Folder(PathBuf),
    /// an ending that says nothing to this tool
    #[error("`{path}` is not something that can be optimized: {why}")]
    Kind {
        /// path as typed
        path: PathBuf,
        /// what it seems to be
        why: &'static str,
    },
    /// `module:callable` with something missing
    #[error("`{0}` is not of the form `module:callable`")]
    Callable(String),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Kind { why, .. } if why.contains("lowered") => {
                "Give the `.py` file or the `.pt2` that it was made from: a lowered program can no longer be repaired"
                    .to_owned()
            }
            Self::Missing(path) if path.extension().is_none() && path.components().count() == 1 => {
                "A model is a `.py` file, a `.pt2` file, or `module:callable`".to_owned()
            }
            Self::Missing(_) => "Check the spelling, and that the path starts from the current folder".to_owned(),
            Self::Folder(_) | Self::Empty | Self::Kind { .. } => {
                "Give a `.py` file with `delegate_doctor_model()` and `delegate_doctor_inputs()`, a `.pt2` file, or `module:callable`"
                    .to_owned()
            }
            Self::Callable(_) => "For example `my_package.models:segmenter`".to_owned(),
        })
    }
}

impl Model {
    /// The same for the same model, whatever folder it was named from.
    pub fn identity(&self) -> String {
        match &self.source {
            ModelSource::File { path } | ModelSource::Program { path } => {
                std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()).display().to_string()
            }
            ModelSource::Callable { module, callable } => format!("{module}:{callable}"),
        }
    }

    /// The same where a lowered program (`.pte`) will do as well: to be run as it is.
    ///
    /// # Errors
    /// As [`Model::parse`].
    pub fn parse_or_lowered(given: &str) -> Result<Self, Error> {
        let path = Path::new(given);
        if path.extension().is_some_and(|ending| ending == "pte") && path.is_file() {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("program").to_owned();
            return Ok(Self { name, given: given.to_owned(), source: ModelSource::Program { path: absolute } });
        }
        Self::parse(given)
    }

    /// True for a program that is lowered already: nothing can be exported from it.
    pub fn is_lowered(&self) -> bool {
        matches!(&self.source, ModelSource::Program { path } if path.extension().is_some_and(|ending| ending == "pte"))
    }

    /// Reads the command line's MODEL.
    ///
    /// # Errors
    /// When no such file exists or its ending is not one this tool takes.
    pub fn parse(given: &str) -> Result<Self, Error> {
        if given.trim().is_empty() {
            return Err(Error::Empty);
        }
        let path = Path::new(given);
        if !path.exists()
            && let Some((module, callable)) = given.split_once(':')
            && !module.contains(['/', '\\'])
        {
            let identifier = |name: &str| {
                !name.is_empty()
                    && name.split('.').all(|part| {
                        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
                            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
                    })
            };
            if !identifier(module) || !identifier(callable) {
                return Err(Error::Callable(given.to_owned()));
            }
            return Ok(Self {
                name: callable.to_owned(),
                given: given.to_owned(),
                source: ModelSource::Callable { module: module.to_owned(), callable: callable.to_owned() },
            });
        }
        if path.is_dir() {
            return Err(Error::Folder(path.to_path_buf()));
        }
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let source = match path.extension().and_then(|ending| ending.to_str()) {
            Some("py") => ModelSource::File { path: absolute },
            Some("pt2") => ModelSource::Program { path: absolute },
            ending if path.exists() => {
                let why = match ending {
                    Some("pte") => "it is a lowered program",
                    Some("pt" | "pth" | "safetensors" | "ckpt" | "bin") => "it holds weights without the model's code",
                    Some("onnx" | "tflite") => "it comes from another framework",
                    _ => "its ending is neither `.py` nor `.pt2`",
                };
                return Err(Error::Kind { path: path.to_path_buf(), why });
            }
            _ => return Err(Error::Missing(path.to_path_buf())),
        };
        if !path.exists() {
            return Err(Error::Missing(path.to_path_buf()));
        }
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("model").to_owned();
        Ok(Self { name, given: given.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_are_told_apart() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = |name: &str| {
            let path = folder.path().join(name);
            crate::files::write_atomic(&path, b"x").expect("write");
            path.display().to_string()
        };
        let parsed = Model::parse(&file("unet.py")).expect("file");
        assert_eq!(parsed.name, "unet");
        assert!(matches!(parsed.source, ModelSource::File { .. }));
        assert!(matches!(Model::parse(&file("a.pt2")).expect("program").source, ModelSource::Program { .. }));
        let callable = Model::parse("zoo.vision:unet").expect("callable");
        assert_eq!(
            callable.source,
            ModelSource::Callable { module: "zoo.vision".to_owned(), callable: "unet".to_owned() }
        );
        let check = |given: &str, message: &str, hint: &str| {
            let error = Model::parse(given).expect_err(given);
            assert!(error.to_string().contains(message), "{error}");
            assert!(error.hint().expect("hint").contains(hint), "{:?}", error.hint());
        };
        check("", "empty", ".pt2");
        check("nowhere/unet.py", "There is no model at `nowhere/unet.py`", "spelling");
        check("unet", "There is no model at `unet`", "module:callable");
        check("zoo:", "not of the form", "my_package");
        check("1zoo:unet", "not of the form", "my_package");
        check(&file("a.pte"), "it is a lowered program", "no longer be repaired");
        check(&file("a.pth"), "weights without the model's code", "delegate_doctor_model");
        check(folder.path().to_str().expect("path"), "is a folder", ".py");
    }
}
