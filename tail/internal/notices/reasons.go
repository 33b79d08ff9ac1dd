package notices

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/compressed"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/settings"
	"kusto-agent/tail/internal/trusted"
)

// problem is an error that knows what a person can do about it.
type problem struct {
	error
	fix    string
	unread bool // there may be records that are not read because of it
}

func (p *problem) Unwrap() error { return p.error }

// Reasons that are no errors of the system.
var (
	ErrNoMatch error = &problem{error: errors.New("no file matches its paths"), fix: "check paths and exclude of the input; nothing, if the files are still to come"}
	ErrOwn     error = &problem{error: errors.New("it belongs to the agent itself"), fix: leaveOut}
)

const leaveOut = "leave it out with exclude, or narrow the paths"

// ShutFolder returns the folder of a path that could not be examined (err) if the agent may not
// enter this folder, and an error about the folder, which is logged once for all files in it. If
// that is not the reason, both are empty.
func ShutFolder(path string, err error) (folder string, shut error) {
	if !errors.Is(err, unix.EACCES) {
		return "", nil
	}
	folder = filepath.Dir(path)
	if !errors.Is(unix.Faccessat(unix.AT_FDCWD, folder, unix.X_OK, unix.AT_EACCESS), unix.EACCES) {
		return "", nil
	}
	return folder, &os.PathError{Op: "enter", Path: folder, Err: unix.EACCES}
}

// Dangling is for a link that leads to nothing: there is to be a file.
func Dangling(err error) error { return &problem{error: err, fix: FixOf(err), unread: true} }

// Rival is for a file that another input, of that name, reads for the same route.
func Rival(input string) error {
	return &problem{error: errors.New("input " + input + " reads it for the same route"), fix: "nothing is missing; to end this, narrow the paths of one of the two"}
}

// Foreign is for a file that is compressed, or an archive, in a way that the agent cannot read.
func Foreign(how compressed.Kind) error {
	fix := "compress it with gzip or zstd, unpack it beside, or " + leaveOut
	if how == compressed.Tar {
		fix = "unpack it beside, or " + leaveOut
	}
	return &problem{error: compressed.ForeignError{Kind: how}, fix: fix, unread: true}
}

// Quarantine is for a file with a record that quarantine does not take.
func Quarantine(err error) error {
	return &problem{error: err, fix: "look at quarantine and remove what is no longer needed, or raise quarantine.max_size; see that the disk of state_dir can be written"}
}

// isUnread reports whether an error may keep records from being read. A missing file does not, and
// neither does a folder or a device that a pattern matches.
func isUnread(err error) bool {
	var p *problem
	var kind *inode.KindError
	switch {
	case errors.As(err, &p):
		return p.unread
	case errors.As(err, &kind):
		return kind.IsPipe()
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// agentUser is the user the agent runs as, or its number where it has no name.
var agentUser = sync.OnceValue(func() string {
	id := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
})

// FixOf says what a person can do about a file that cannot be read.
func FixOf(err error) string {
	var p *problem
	var kind *inode.KindError
	var planted *trusted.PlantedError
	var mark *settings.MarkError
	switch {
	case errors.As(err, &p):
		return p.fix
	case errors.As(err, &kind) && kind.IsDir():
		return "to read the files in it, add /* to the path; else " + leaveOut
	case errors.As(err, &kind):
		return leaveOut
	case errors.As(err, &planted):
		return planted.Fix()
	case errors.As(err, &mark):
		return mark.Fix()
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		name := agentUser()
		return "let user " + name + " read it; the commands for that: sudo kusto-agent check --user " + name + " (setfacl -m u:" + name + ":r for the file, :rx for its folders)"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "raise LimitNOFILE of the unit, or lower limits.open_files"
	case errors.Is(err, archive.ErrCut), errors.Is(err, archive.ErrDamaged):
		return "nothing, if the file is still being written; else the agent sends its readable part after ten times rotate_quiet"
	case errors.As(err, new(compressed.NestedError)):
		return "unpack it beside, or " + leaveOut
	case errors.Is(err, archive.ErrWindow):
		return "compress it without --long and --ultra, or unpack it beside"
	case errors.Is(err, unix.ELOOP):
		return "the link leads round in a circle: let it lead to a file, or leave it out with exclude"
	case errors.Is(err, fs.ErrNotExist):
		return "nothing, if the file is still to come; else remove the link, or leave it out with exclude"
	}
	return "look at the file, its folder and its file system; the agent retries by itself"
}
