package tail

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/settings"
	"kusto-agent/tail/internal/trusted"
)

// ErrPlanted says that a link is not followed because of who made it.
var ErrPlanted = trusted.ErrPlanted

// tellRead logs, once, why the turn of a reader could not read its file (err), and after that,
// once, that it can be read again (err is nil).
func (w *worker) tellRead(r *reader, err error) {
	if err != nil || w.job.complained {
		w.t.tellOf(subject{w.job.path, r.in.Name}, err, false)
	}
}

// subject is what a complaint is about: a path, for all inputs or for one of
// several that may read it; without a path, an input as a whole.
type subject struct{ path, input string }

// String returns the subject as the status shows it: the path, and the input if only one of several
// is concerned.
func (s subject) String() string {
	switch {
	case s.path == "":
		return "input " + s.input
	case s.input == "":
		return s.path
	}
	return s.path + " for input " + s.input
}

// complaint is what was last told of a subject.
type complaint struct {
	why  string
	fix  string
	scan uint64 // number of the scan it was told in
	file bool   // there is a file, or may be, that ought to be read
}

// forgive forgets logged problems that the last scan did not find again, unless a file at that
// path is still being read. If such a problem comes back, it is logged again. The caller holds
// mu.
func (t *Tailer) forgive() {
	for about, c := range t.told {
		if c.scan < t.scans.no && (about.input == "" || !t.byPath.Has(about.path)) {
			delete(t.told, about)
		}
	}
}

// tell logs what is wrong with a path, whatever the input, when that changes.
func (t *Tailer) tell(path string, err error) { t.tellOf(subject{path: path}, err, false) }

// tellOf logs err if the reason differs, in more than numbers, from the one that was
// logged last for the subject. nil: the subject can be read, which is logged if a reason
// was logged before. With first, err counts only if the scan under way has told nothing
// of the subject: two reasons would be told in turn without end.
func (t *Tailer) tellOf(about subject, err error, first bool) {
	t.mu.Lock()
	was := t.told[about].why
	if first && was != "" && t.told[about].scan == t.scans.no {
		t.mu.Unlock()
		return
	}
	now := ""
	if err != nil {
		now = err.Error()
		t.told[about] = complaint{now, fixOf(err), t.scans.no, isFile(err)}
	} else {
		delete(t.told, about)
	}
	t.mu.Unlock()
	if sameReason(now, was) {
		return
	}
	bad, good, where := "input has no file, will look again", "input has files again", []any(nil)
	if about.path != "" {
		bad, good, where = "file cannot be read, will retry", "file can be read again", []any{"file", about.path}
	}
	if about.input != "" {
		where = append(where, "input", about.input)
	}
	if err != nil {
		t.o.Logger.Warn(bad, append(where, "err", err, "fix", fixOf(err))...)
	} else {
		t.o.Logger.Info(good, where...)
	}
}

// awayFor is how many times rotate_quiet an input whose files are gone matches
// nothing before that is told: between a rotation and the next file nothing is amiss.
const awayFor = 12

// tellMatched logs when an input has had no file for a while, and when it has files again. matched
// says that the scan has found a path for it.
func (t *Tailer) tellMatched(in *input, matched bool) {
	whole := subject{input: in.Name}
	switch {
	case matched:
		in.matched = time.Now()
		t.tellOf(whole, nil, false)
	case time.Since(in.matched) >= awayFor*in.RotateQuiet.D():
		t.tellOf(whole, errNoMatch, false)
	}
}

// sameReason reports whether two reasons are equal, or differ in numbers only: a number such as
// free space changes with every try, and is not logged again. An empty reason equals only an empty
// one.
func sameReason(a, b string) bool {
	wordsOf := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	return a == b || a != "" && b != "" && wordsOf(a) == wordsOf(b)
}

// problem is an error that knows what a person can do about it.
type problem struct {
	error
	fix  string
	file bool // there may be records that are not read because of it
}

func (p *problem) Unwrap() error { return p.error }

var (
	errNoMatch = &problem{error: errors.New("no file matches its paths"), fix: "check paths and exclude of the input; nothing, if the files are still to come"}
	errOwn     = &problem{error: errors.New("it belongs to the agent itself"), fix: leaveOut}
)

const leaveOut = "leave it out with exclude, or narrow the paths"

// shutFolder returns the folder of a path that could not be examined (err) if the agent may not
// enter this folder, and an error about the folder, which is logged once for all files in it. If
// that is not the reason, both are empty.
func shutFolder(path string, err error) (folder string, shut error) {
	if !errors.Is(err, unix.EACCES) {
		return "", nil
	}
	folder = filepath.Dir(path)
	if !errors.Is(unix.Faccessat(unix.AT_FDCWD, folder, unix.X_OK, unix.AT_EACCESS), unix.EACCES) {
		return "", nil
	}
	return folder, &os.PathError{Op: "enter", Path: folder, Err: unix.EACCES}
}

// errKind returns the error for a path that is not a regular file, with a fix. Only of a pipe or a
// socket it says that records are missed.
func errKind(s status) error {
	fix := leaveOut
	if s.mode&unix.S_IFMT == unix.S_IFDIR {
		fix = "to read the files in it, add /* to the path; else " + leaveOut
	}
	pipe := s.mode&unix.S_IFMT == unix.S_IFIFO || s.mode&unix.S_IFMT == unix.S_IFSOCK
	return &problem{error: errors.New("it is " + s.kind()), fix: fix, file: pipe}
}

// errDangling is for a link that leads to nothing: there is to be a file.
func errDangling(err error) error { return &problem{error: err, fix: fixOf(err), file: true} }

func errRival(input string) error {
	return &problem{error: errors.New("input " + input + " reads it for the same route"), fix: "nothing is missing; to end this, narrow the paths of one of the two"}
}

func errQuarantine(err error) error {
	return &problem{error: err, fix: "look at quarantine and remove what is no longer needed, or raise quarantine.max_size; see that the disk of state_dir can be written"}
}

// isFile reports whether an error may keep records from being read. A missing file does not, and
// neither does a folder or a device that a pattern matches.
func isFile(err error) bool {
	var p *problem
	if errors.As(err, &p) {
		return p.file
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

// fixOf says what a person can do about a file that cannot be read.
func fixOf(err error) string {
	var p *problem
	var planted *trusted.PlantedError
	var mark *settings.MarkError
	switch {
	case errors.As(err, &p):
		return p.fix
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
	case errors.Is(err, archive.ErrWindow):
		return "compress it without --long and --ultra, or unpack it beside"
	case errors.Is(err, unix.ELOOP):
		return "the link leads round in a circle: let it lead to a file, or leave it out with exclude"
	case errors.Is(err, fs.ErrNotExist):
		return "nothing, if the file is still to come; else remove the link, or leave it out with exclude"
	}
	return "look at the file, its folder and its file system; the agent retries by itself"
}

// tellQuarantined logs the first record of a file that goes to quarantine; the others are
// only counted.
func (w *worker) tellQuarantined(r *reader, offset int64, reason record.Reason, message string) {
	if r.quarantined {
		return
	}
	r.quarantined = true
	fix := "see that format is that of the file; the records are kept in state_dir/quarantine"
	switch {
	case reason == record.TooLong && r.in.Format == record.Avro:
		fix = "raise batch.max_size, or have smaller blocks written; their beginnings are kept in state_dir/quarantine"
	case reason == record.TooLong:
		fix = "raise max_record_size if such records are wanted; their beginnings are kept in state_dir/quarantine"
	case reason == record.Grown:
		fix = "raise batch.max_size, or add less with fields; the records are kept in state_dir/quarantine"
	}
	w.t.o.Logger.Warn("file has bad records, they go to quarantine; this is the first", "input", r.in.Name, "file", w.pathOf(r), "offset", offset,
		"reason", string(reason), "err", message, "fix", fix)
}

// tellNoText logs the first records of a file that are not valid text in its encoding.
// They are sent.
func (w *worker) tellNoText(r *reader, in record.Span) {
	if r.noText {
		return
	}
	r.noText = true
	about := []any{"input", r.in.Name, "file", w.pathOf(r), "offset", in.Start, "end", in.End}
	if r.in.Shaping&record.Reshaped != 0 {
		w.t.o.Logger.Warn("file has bytes that are invalid in its encoding, sending U+FFFD for them", append(about,
			"fix", "set encoding to that of the file; if it is no text, leave it out with exclude")...)
		return
	}
	w.t.o.Logger.Warn("file has records that are not valid UTF-8, sending them unchanged", append(about,
		"fix", "if it is no text, leave it out with exclude; else set encoding to that of the file, or have it written as UTF-8")...)
}

// tellMark logs that a file begins with the byte order mark of another encoding than its
// input's. If the input redacts, that is an error, since rules would find nothing.
func (w *worker) tellMark(r *reader, head []byte) error {
	err := r.in.ForeignMark(head)
	switch {
	case r.in.Redacts():
		return err
	case err == nil, r.marked, r.in.Format == record.Avro:
		return nil
	}
	r.marked = true
	w.t.o.Logger.Warn("byte order mark of the file does not match the encoding of its input; the file is read in the encoding of the input", "input", r.in.Name, "file", w.pathOf(r),
		"fix", fixOf(err))
	return nil
}
