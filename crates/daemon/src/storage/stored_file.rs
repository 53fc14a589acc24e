//! A file that is complete at every moment: read, checked, and replaced as a whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::FormatError;
use super::{Disk, Format, folder_of, with_suffix};

#[derive(Debug)]
pub(crate) struct StoredFile {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Content(#[from] FormatError),
}

/// The reason why a file was not replaced, and with it which content the file has.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    /// The file has its old content, on disk, too.
    #[error("{0}")]
    Kept(io::Error),
    /// The file has its old or its new content, and may have the other one after a power failure.
    #[error("{0}")]
    Unknown(io::Error),
}

impl StoredFile {
    /// Returns the body; `None` if the file does not exist.
    pub(crate) fn load(&self) -> Result<Option<Vec<u8>>, LoadError> {
        self.load_from(&self.path)
    }

    /// Returns the body of another file of the same kind.
    pub(crate) fn load_from(&self, file: &Path) -> Result<Option<Vec<u8>>, LoadError> {
        match self.disk.read(file) {
            Ok(bytes) => Ok(Some(self.format.decode(&bytes)?.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the file by a new one. When this returns `Ok`, the body is on disk.
    pub(crate) fn replace(&self, body: &[u8]) -> Result<(), ReplaceError> {
        let new = with_suffix(&self.path, ".new");
        if let Err(error) = self.write_new(&new, body) {
            // The next call removes it if this one cannot.
            let _ = self.disk.remove(&new);
            return Err(ReplaceError::Kept(error));
        }
        let renamed = self.disk.rename(&new, &self.path);
        // The folder holds the name of the file.
        renamed.and_then(|()| self.disk.sync_folder(folder_of(&self.path))).map_err(ReplaceError::Unknown)
    }

    /// Writes a complete file that no earlier failure has touched: after a failed flush, Linux may
    /// report success for the same file without having written it.
    fn write_new(&self, new: &Path, body: &[u8]) -> io::Result<()> {
        match self.disk.remove(new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = self.disk.create(new)?;
        file.write_all(&self.format.encode(body))?;
        file.sync()
    }
}
