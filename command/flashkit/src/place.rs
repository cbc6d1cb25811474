//! Places: `IMAGE:/path` inside an image, anything else on the host.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::text;

/// Where something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A path inside an image.
    Image(InImage),
    /// A path of the host.
    Host(PathBuf),
}

/// A path inside an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InImage {
    /// The image file.
    pub image: PathBuf,
    /// The path inside; starts with a slash.
    pub path: Vec<u8>,
}

/// Refuses what is no directory of the host.
pub fn check_dir(path: &Path) -> anyhow::Result<()> {
    let shown = || text::path(path);
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => bail!("{}: not a directory", shown()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{}: no such directory", shown())
        }
        Err(error) => Err(error).with_context(shown),
    }
}

/// A place that an option or an argument names: any text but an empty one.
pub fn named() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|text| match text.is_empty() {
        true => Err("an empty name"),
        false => Ok(text),
    })
}

impl Place {
    /// `IMAGE:/path` and `IMAGE:` are inside an image. Where several `:/` could be meant, the
    /// first that follows an existing file is.
    pub fn parse(text: &OsStr) -> Place {
        let bytes = text.as_bytes();
        let split = bytes
            .windows(2)
            .enumerate()
            .filter(|(at, pair)| *at > 0 && *pair == b":/")
            .map(|(at, _)| at)
            .collect::<Vec<_>>();
        // A name with `:/` in it: the image is what is a file.
        let is_file = |at: &&usize| PathBuf::from(OsStr::from_bytes(&bytes[..**at])).is_file();
        let at = split.iter().find(is_file).or(split.first()).copied();
        let at = at.or_else(|| (bytes.len() > 1 && bytes.ends_with(b":")).then(|| bytes.len() - 1));
        match at {
            Some(at) => {
                let path = if at + 1 == bytes.len() {
                    b"/".to_vec()
                } else {
                    bytes[at + 1..].to_vec()
                };
                Place::Image(InImage {
                    image: OsStr::from_bytes(&bytes[..at]).into(),
                    path,
                })
            }
            None => Place::without_slash(bytes).unwrap_or(Place::Host(text.into())),
        }
    }

    /// `IMAGE:path`, where there is such an image and no such file.
    fn without_slash(text: &[u8]) -> Option<Place> {
        let at = text.iter().position(|byte| *byte == b':')?;
        let image = PathBuf::from(OsStr::from_bytes(&text[..at]));
        let is_host = std::fs::symlink_metadata(OsStr::from_bytes(text)).is_ok();
        (image.is_file() && !is_host).then(|| {
            let path = [b"/", &text[at + 1..]].concat();
            Place::Image(InImage { image, path })
        })
    }
}

impl InImage {
    /// As `Place::parse`, but a bare image stands for its root.
    pub fn parse(text: &OsStr) -> InImage {
        match Place::parse(text) {
            Place::Image(place) => place,
            Place::Host(image) => InImage {
                image,
                path: b"/".to_vec(),
            },
        }
    }

    /// How the place reads in a message.
    pub fn shown(&self) -> String {
        format!("{}:{}", text::path(&self.image), text::name(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(image: &str, path: &str) -> Place {
        Place::Image(InImage {
            image: image.into(),
            path: path.into(),
        })
    }

    #[test]
    fn places() {
        let parse = |text: &str| Place::parse(OsStr::new(text));
        assert_eq!(parse("a.img:/b/c"), inside("a.img", "/b/c"));
        assert_eq!(parse("dir/a.img:/"), inside("dir/a.img", "/"));
        assert_eq!(parse("a.img:"), inside("a.img", "/"));
        assert_eq!(parse("a.img:/b:/c"), inside("a.img", "/b:/c"));
        assert_eq!(parse("a.img"), Place::Host("a.img".into()));
        assert_eq!(parse("a:b"), Place::Host("a:b".into()));
        assert_eq!(parse(":"), Place::Host(":".into()));
        assert_eq!(InImage::parse(OsStr::new("a.img")).path, b"/");
    }
}
