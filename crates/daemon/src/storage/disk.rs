//! The file operations of stored files, so that tests can let each of them fail.

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

pub(crate) trait Disk: Debug + Send + Sync {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;
    /// Creates an empty file; fails if the name is in use.
    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, file: &Path) -> io::Result<()>;
    /// Returns the names in a folder.
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>>;
    /// Flushes the names in a folder to the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

pub(crate) trait NewFile: Write {
    /// Flushes the content to the disk. After an error the content on disk is unknown, and a second
    /// call may succeed without having written it: the file must be abandoned.
    fn sync(&mut self) -> io::Result<()>;
}

#[derive(Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        fs::read(file)
    }
    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(File::create_new(file)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }
    fn remove(&self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

impl NewFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}
