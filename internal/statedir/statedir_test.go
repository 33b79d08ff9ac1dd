package statedir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/internal/exit"
)

var discard = slog.New(slog.DiscardHandler)

// codeOf is the exit code of an error; 0: there is none.
func codeOf(err error) int {
	var ended *exit.Error
	if errors.As(err, &ended) {
		return ended.Code
	}
	return 0
}

// TestLock: a folder belongs to one at a time, who is named, and is free again.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "above", "state")
	lock, err := Lock(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("made with %v, %v", st.Mode(), err)
	}
	_, err = Lock(dir, discard)
	if codeOf(err) != exit.Failed || !strings.Contains(err.Error(), fmt.Sprintf("is in use by another agent (pid %d)", os.Getpid())) {
		t.Errorf("a second one: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if lock, err = Lock(dir, discard); err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLockIsGivenBack: a folder that is refused is not kept from those who mend it.
func TestLockIsGivenBack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	chmod := func(mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(0o777)
	if _, err := Lock(dir, discard); codeOf(err) != exit.Config || !strings.Contains(err.Error(), "chmod o-w "+dir) {
		t.Errorf("refused with %v", err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
		t.Errorf("it holds %v, %v", all, err)
	}
	chmod(0o755)
	lock, err := Lock(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNoFolder: a state_dir that is no folder, or is to be in something that is none, is a mistake of
// the configuration: to start again does not help.
func TestNoFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, file + "/", filepath.Join(file, "state")} {
		if _, err := Lock(dir, discard); codeOf(err) != exit.Config || !strings.Contains(err.Error(), "set state_dir to a folder") {
			t.Errorf("%s: %v, exit code %d", dir, err, codeOf(err))
		}
	}
	if st, err := os.Stat(file); err != nil || !st.Mode().IsRegular() {
		t.Errorf("the file was changed: %v, %v", st, err)
	}
}

// TestPidIsForPeople: what has the name of the file with the pid is not written to where it
// is no file, and a folder is locked all the same.
func TestPidIsForPeople(t *testing.T) {
	t.Parallel()
	f := func(name string, make func(path string) error) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			other := filepath.Join(dir, "other")
			if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := make(filepath.Join(dir, lockName)); err != nil {
				t.Fatal(err)
			}
			lock, err := Lock(dir, discard)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if text, err := os.ReadFile(other); string(text) != "precious" {
				t.Errorf("another file holds %q, %v", text, err)
			}
			if _, err := Lock(dir, discard); err == nil || !strings.Contains(err.Error(), "by another agent; stop that one") {
				t.Errorf("a second one: %v", err)
			}
		})
	}
	f("link", func(path string) error { return os.Symlink("other", path) })
	f("link to nothing", func(path string) error { return os.Symlink("none", path) })
	f("hard link", func(path string) error { return os.Link(filepath.Join(filepath.Dir(path), "other"), path) })
	f("FIFO", func(path string) error { return syscall.Mkfifo(path, 0o600) })
	f("folder", func(path string) error { return os.Mkdir(path, 0o700) })
}

// TestRootActsForTheOwner: what root makes in the state_dir of another user belongs to that user.
func TestRootActsForTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const nobody = 65534
	for _, owner := range []int{nobody, 0} {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, owner, owner)); err != nil {
			t.Fatal(err)
		}
		lock, err := Lock(dir, discard)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Disk(dir).Open(filepath.Join(dir, "file"), os.O_RDWR|os.O_CREATE)
		if err == nil {
			err = errors.Join(f.Close(), lock.Close(), Disk(dir).Mkdir(filepath.Join(dir, "folder")))
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{lockName, "file", "folder"} {
			st, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if sys := st.Sys().(*syscall.Stat_t); int(sys.Uid) != owner || int(sys.Gid) != owner {
				t.Errorf("in a folder of %d, %s belongs to %d:%d", owner, name, sys.Uid, sys.Gid)
			}
		}
	}
}

// TestLockFileOfAnother: a file of a third user in the place of LOCK is left alone by root.
func TestLockFileOfAnother(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, lockName)
	if err := errors.Join(os.WriteFile(file, []byte("precious"), 0o600), os.Chown(file, 65533, 65533), os.Chown(dir, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	lock, err := Lock(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "precious" {
		t.Errorf("it holds %q, %v", text, err)
	}
	if st, err := os.Stat(file); err != nil || st.Sys().(*syscall.Stat_t).Uid != 65533 {
		t.Errorf("it is given away: %v", err)
	}
}

// TestDiskOfAnother: nothing is made in a folder in the place of a locked one while another process has it.
func TestDiskOfAnother(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	lock, err := Lock(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	disk := lock.Disk()
	use := func() (made, folder error) {
		f, made := disk.Open(filepath.Join(dir, "file"), os.O_RDWR|os.O_CREATE)
		if made == nil {
			f.Close()
		}
		return made, disk.Mkdir(filepath.Join(dir, "folder"))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	other, err := Lock(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	made, folder := use()
	if names, err := disk.List(dir); !errors.Is(made, ErrInUse) || !errors.Is(folder, ErrInUse) || len(names) != 1 || err != nil {
		t.Errorf("made with %v and %v; there are %q, %v", made, folder, names, err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if made, folder := use(); made != nil || folder != nil {
		t.Errorf("in a free folder: %v, %v", made, folder)
	}
	if _, err := Lock(dir, discard); !errors.Is(err, ErrInUse) {
		t.Errorf("another one gets: %v", err)
	}
}

// hanging is a lock on a disk that does not answer.
type hanging struct{ asked, answer chan struct{} }

func (h hanging) Holds(string) bool {
	close(h.asked)
	<-h.answer
	return true
}

func (h hanging) Close() error { return nil }

// TestCloseOnADiskThatHangs: a disk that does not say whether the folder is the same does not hold up
// the end of the agent.
func TestCloseOnADiskThatHangs(t *testing.T) {
	t.Parallel()
	disk := hanging{make(chan struct{}), make(chan struct{})}
	l := &Locked{log: discard, lock: disk}
	again := make(chan error)
	go func() { again <- l.Again() }()
	<-disk.asked
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	close(disk.answer)
	if err := <-again; err != nil {
		t.Error(err)
	}
}
