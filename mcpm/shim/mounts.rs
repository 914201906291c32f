//! Builds the file system of a sandbox and makes it the root.
//!
//! The content of the root folder is untrusted. The kernel therefore resolves each path in it with that folder as the
//! root, so that no symbolic link and no `..` leads out of it, and mounts are attached to the open file or folder that
//! was found in this way.

use alloc::vec::Vec;

use crate::{
    failure::{Result, failed},
    plan::MountOperation,
    report::Step,
    sys::{self, Depth, Errno, Fd, Lookup, decimal},
};

/// Attributes of all mounts that are not for devices.
const USUAL: u64 = sys::NO_SETUID | sys::NO_DEVICES;

/// The folder that becomes the root.
struct Root<'a> {
    path: &'a [u8],
    folder: Fd,
}

/// Builds the file system below a folder of the machine, and makes it the root of this process.
pub(crate) fn build(root: &[u8], operations: &[MountOperation]) -> Result<()> {
    sys::make_mounts_private().map_err(failed(Step::Separate, b"the mounts of this machine"))?;
    sys::set_umask(0);
    let mut root = Root::prepare(root).map_err(failed(Step::Mount, root))?;
    operations.iter().try_for_each(|operation| root.apply(operation))?;
    sys::change_root(&root.folder).map_err(failed(Step::ChangeRoot, root.path))
}

impl<'a> Root<'a> {
    /// Mounts the folder onto itself, because only a mount can become the root.
    fn prepare(path: &'a [u8]) -> sys::Result<Self> {
        let mount = sys::copy_mount(path)?;
        sys::restrict_mount(&mount, USUAL, Depth::All)?;
        sys::attach_mount(&mount, &sys::open_folder(path)?)?;
        Ok(Self { path, folder: sys::open_folder(path)? })
    }

    fn apply(&mut self, operation: &MountOperation) -> Result<()> {
        match operation {
            MountOperation::Tmpfs { target, attributes, options } => {
                self.mount_tmpfs(target, *attributes, options).map_err(failed(Step::Mount, target))
            }
            MountOperation::Bind { target, attributes, source } => {
                let bound = sys::copy_mount(source).map_err(failed(Step::Mount, source))?;
                self.bind(&bound, *attributes, target).map_err(failed(Step::Mount, target))
            }
            MountOperation::Overlay { target, lower, upper } => self.mount_overlay(target, lower, upper),
            MountOperation::Proc { target } => self.mount_proc(target).map_err(failed(Step::Mount, target)),
            MountOperation::DevPts { target } => {
                self.mount_terminals(target).map_err(failed(Step::Mount, target))
            }
            MountOperation::Folder { path, mode } => {
                self.folder(path, *mode).map(drop).map_err(failed(Step::Create, path))
            }
            MountOperation::Symlink { path, to } => {
                self.create_link(path, to).map_err(failed(Step::Create, path))
            }
            MountOperation::File { path, mode, content } => {
                self.write_file(path, *mode, content).map_err(failed(Step::Create, path))
            }
            MountOperation::ReadOnly { target } => {
                self.protect(target).map_err(failed(Step::Protect, target))
            }
            MountOperation::Mask { path } => self.hide(path).map_err(failed(Step::Hide, path)),
        }
    }

    fn mount_tmpfs(&mut self, target: &[u8], attributes: u64, options: &[Vec<u8>]) -> sys::Result<()> {
        let options: Vec<(&[u8], &[u8])> =
            options.chunks_exact(2).map(|pair| (pair[0].as_slice(), pair[1].as_slice())).collect();
        let mount = sys::new_mount(b"tmpfs\0", &options, attributes | USUAL)?;
        let place = self.folder(target, 0o755)?;
        self.attach(&mount, &place)
    }

    fn bind(&mut self, bound: &Fd, attributes: u64, target: &[u8]) -> sys::Result<()> {
        sys::restrict_mount(bound, attributes | sys::NO_SETUID, Depth::All)?;
        let place = if sys::is_folder(bound)? { self.folder(target, 0o755)? } else { self.file(target)? };
        self.attach(bound, &place)
    }

    /// The layers are named by their open files, which keeps the options short and needs no escapes.
    fn mount_overlay(&mut self, target: &[u8], lower: &[Vec<u8>], upper: &[Vec<u8>]) -> Result<()> {
        let place = self.folder(target, 0o755).map_err(failed(Step::Mount, target))?;
        let open = |path: &Vec<u8>| sys::open_folder(path).map_err(failed(Step::Mount, path));
        let lower = lower.iter().map(open).collect::<Result<Vec<Fd>>>()?;
        let upper = upper.iter().map(open).collect::<Result<Vec<Fd>>>()?;
        let mut options = b"userxattr,lowerdir=".to_vec();
        for (at, layer) in lower.iter().enumerate() {
            if at > 0 {
                options.push(b':');
            }
            append_path(&mut options, layer);
        }
        for (name, folder) in [b",upperdir=" as &[u8], b",workdir="].iter().zip(&upper) {
            options.extend_from_slice(name);
            append_path(&mut options, folder);
        }
        options.push(0);
        let mut path = Vec::new();
        append_path(&mut path, &place);
        path.push(0);
        sys::mount_overlay(&path, &options).and_then(|()| self.reopen()).map_err(failed(Step::Mount, target))
    }

    /// The target must not be a symbolic link: it could make another folder look like the process files.
    fn mount_proc(&mut self, target: &[u8]) -> sys::Result<()> {
        let mount = sys::new_mount(b"proc\0", &[], USUAL | sys::NO_EXEC)?;
        let place = match sys::open_folder_below(&self.folder, target, Lookup::InRootWithoutLinks) {
            Err(Errno::NOT_FOUND) => self.folder(target, 0o555)?,
            found => found?,
        };
        self.attach(&mount, &place)
    }

    fn mount_terminals(&mut self, target: &[u8]) -> sys::Result<()> {
        let options: [(&[u8], &[u8]); 2] = [(b"ptmxmode\0", b"666\0"), (b"mode\0", b"620\0")];
        let mount = sys::new_mount(b"devpts\0", &options, sys::NO_SETUID | sys::NO_EXEC)?;
        let place = self.folder(target, 0o755)?;
        self.attach(&mount, &place)
    }

    fn attach(&mut self, mount: &Fd, place: &Fd) -> sys::Result<()> {
        sys::attach_mount(mount, place)?;
        self.reopen()
    }

    /// Opens the root folder again, which may be a new mount now.
    fn reopen(&mut self) -> sys::Result<()> {
        self.folder = sys::open_folder(self.path)?;
        Ok(())
    }

    /// Makes a mount read-only; a file or folder that is not a mount becomes one first. A missing path needs no
    /// protection.
    fn protect(&mut self, target: &[u8]) -> sys::Result<()> {
        let place = match sys::open_below(&self.folder, target, Lookup::InRoot) {
            Err(Errno::NOT_FOUND) => return Ok(()),
            found => found?,
        };
        match sys::restrict_mount(&place, sys::READ_ONLY, Depth::One) {
            // The path is not the root of a mount.
            Err(Errno::INVALID) => {}
            result => return result,
        }
        let copy = sys::copy_mount_of(&place)?;
        sys::restrict_mount(&copy, sys::READ_ONLY, Depth::All)?;
        self.attach(&copy, &place)
    }

    /// Covers a folder with an empty one, and a file with the null device. A missing path needs no cover.
    fn hide(&mut self, path: &[u8]) -> sys::Result<()> {
        let place = match sys::open_below(&self.folder, path, Lookup::InRoot) {
            Err(Errno::NOT_FOUND) => return Ok(()),
            found => found?,
        };
        let cover = if sys::is_folder(&place)? {
            let options: [(&[u8], &[u8]); 2] = [(b"size\0", b"4096\0"), (b"mode\0", b"555\0")];
            sys::new_mount(b"tmpfs\0", &options, USUAL | sys::NO_EXEC | sys::READ_ONLY)?
        } else {
            sys::copy_mount(b"/dev/null\0")?
        };
        self.attach(&cover, &place)
    }

    /// Opens a folder, and creates what is missing of its path.
    fn folder(&self, path: &[u8], mode: u32) -> sys::Result<Fd> {
        match sys::open_folder_below(&self.folder, path, Lookup::InRoot) {
            Err(Errno::NOT_FOUND) => {}
            found => return found,
        }
        let (parent, name) = split(path)?;
        let parent = self.folder(&parent, 0o755)?;
        sys::create_folder(&parent, name, mode)?;
        // If the name has become a link meanwhile, the kernel does not follow it.
        sys::open_folder_below(&parent, name, Lookup::InRootWithoutLinks)
    }

    /// Opens a file, and creates it and its folders if they are missing.
    fn file(&self, path: &[u8]) -> sys::Result<Fd> {
        match sys::open_below(&self.folder, path, Lookup::InRoot) {
            Err(Errno::NOT_FOUND) => {}
            found => return found,
        }
        let (parent, name) = split(path)?;
        let parent = self.folder(&parent, 0o755)?;
        self.replace(&parent, name, |parent, name| sys::create_file(parent, name).map(drop))?;
        sys::open_below(&parent, name, Lookup::InRootWithoutLinks)
    }

    fn create_link(&self, path: &[u8], to: &[u8]) -> sys::Result<()> {
        let (parent, name) = split(path)?;
        let parent = self.folder(&parent, 0o755)?;
        self.replace(&parent, name, |parent, name| sys::create_link(parent, name, to))
    }

    fn write_file(&self, path: &[u8], mode: u32, content: &[u8]) -> sys::Result<()> {
        let (parent, name) = split(path)?;
        let parent = self.folder(&parent, 0o755)?;
        self.replace(&parent, name, |parent, name| {
            let file = sys::create_file(parent, name)?;
            sys::write_all(&file, content)?;
            sys::set_mode(&file, mode)
        })
    }

    /// Creates something in place of a file or a link.
    fn replace(
        &self,
        parent: &Fd,
        name: &[u8],
        create: impl Fn(&Fd, &[u8]) -> sys::Result<()>,
    ) -> sys::Result<()> {
        match create(parent, name) {
            Err(Errno::EXISTS) => {
                sys::remove_file(parent, name)?;
                create(parent, name)
            }
            result => result,
        }
    }
}

/// Splits a path that ends with a zero byte into the path of its folder and its last name, which must be a plain one.
fn split(path: &[u8]) -> sys::Result<(Vec<u8>, &[u8])> {
    let at = path.iter().rposition(|byte| *byte == b'/').ok_or(Errno::INVALID)?;
    let (parent, name) = path.split_at(at + 1);
    if matches!(name, b"\0" | b".\0" | b"..\0") {
        return Err(Errno::INVALID);
    }
    // The root is its own parent.
    let mut parent = if at == 0 { parent.to_vec() } else { parent[..at].to_vec() };
    parent.push(0);
    Ok((parent, name))
}

/// Appends the path of an open file.
fn append_path(text: &mut Vec<u8>, file: &Fd) {
    text.extend_from_slice(b"/proc/self/fd/");
    decimal(text, file.0 as u32);
}
