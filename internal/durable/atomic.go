package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// TempSuffix ends the name of a file that is being written and has not got
// its own name yet. After a crash such a file means nothing.
const TempSuffix = ".tmp"

// WriteAtomic replaces the content of the file path by what write writes. After a crash or power cut
// at any moment path has either its old content or all of the new; once WriteAtomic has returned nil,
// the new. write gets an unbuffered writer. Two calls for one path must not run at the same time.
func WriteAtomic(fsys FS, path string, write func(io.Writer) error) error {
	f, err := createTemp(fsys, path)
	if err != nil {
		return err
	}
	if err := write(io.NewOffsetWriter(f, 0)); err != nil {
		f.Close()
		return fmt.Errorf("write %q: %w", path, err)
	}
	if err := commit(fsys, f, path, fsys.Rename); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close %q: %w", path, err)
	}
	return nil
}

// createTemp creates an empty temporary file for the content of path. A temporary file left by a crash
// is removed and never reused: an inode whose sync once failed cannot be trusted.
func createTemp(fsys FS, path string) (File, error) {
	temp := path + TempSuffix
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove old temporary file: %w", err)
	}
	f, err := fsys.Open(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("create temporary file: %w", err)
	}
	return f, nil
}

// commit makes a finished temporary file durable under its final name: it syncs the content, renames
// the file and syncs its folder, in this order. rename decides whether an existing file is replaced.
func commit(fsys FS, f File, path string, rename func(from, to string) error) error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %q: %w", path+TempSuffix, err)
	}
	if err := rename(path+TempSuffix, path); err != nil {
		return fmt.Errorf("rename into place: %w", err)
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("sync folder of %q: %w", path, err)
	}
	return nil
}

// Size returns the length of a file in bytes.
func Size(fsys FS, path string) (int64, error) {
	f, err := fsys.Open(path, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size()
}

// MkdirAll makes dir and all missing folders above it. Once it has returned nil, they survive a power
// cut.
func MkdirAll(fsys FS, dir string) error {
	err := fsys.Mkdir(dir)
	parent := filepath.Dir(dir)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist) && parent != dir:
		if err := MkdirAll(fsys, parent); err != nil {
			return err
		}
		if err = fsys.Mkdir(dir); errors.Is(err, fs.ErrExist) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := fsys.SyncDir(parent); err != nil {
		_ = fsys.Remove(dir) // so that another try makes its name durable, and does not find it there
		return fmt.Errorf("sync folder %q: %w", parent, err)
	}
	return nil
}

// Move renames a file into the folder dir, which is created if it is missing, and replaces a file of
// that name. The new name is synced before the removal of the old one is, so that a power cut does
// not lose the file.
func Move(fsys FS, path, dir string) error {
	if err := MkdirAll(fsys, dir); err != nil {
		return err
	}
	if err := fsys.Rename(path, filepath.Join(dir, filepath.Base(path))); err != nil {
		return fmt.Errorf("move %q: %w", path, err)
	}
	for _, d := range []string{dir, filepath.Dir(path)} {
		if err := fsys.SyncDir(d); err != nil {
			return fmt.Errorf("sync folder %q: %w", d, err)
		}
	}
	return nil
}
