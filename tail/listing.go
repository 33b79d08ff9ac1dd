package tail

import (
	"fmt"
	"os"
	"slices"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/look"
	"kusto-agent/tail/internal/notices"
)

// Listing returns the status of every file: how far it is read, or why it is not. With all
// it includes files that exclude leaves out, and files that are gone but remembered. It
// scans the folders itself, and readers do not wait for it.
func (t *Tailer) Listing(all bool) []FileStatus {
	l := listing{t: t, inputs: t.inputs(), all: all, told: make(map[notices.Subject]bool)}
	for _, in := range l.inputs {
		l.match(in)
	}
	t.on(&l)
	return l.files
}

// happen lists the files.
func (l *listing) happen(t *Tailer) {
	for _, m := range l.matched {
		l.meet(m.in, m.path, m.st, m.regular)
	}
	l.files = slices.DeleteFunc(l.files, func(f FileStatus) bool { // a reader has the file since
		return some(t.byPath.Get(f.Path), func(r *reader) bool { return r.in.Name == f.File.Input && !r.life.IsGone() })
	})
	for _, in := range l.inputs {
		for r := range in.readers.All() {
			l.told[notices.Subject{Path: r.path(), Input: in.Name}] = true
			l.files = append(l.files, t.statusOf(r))
		}
		if l.all {
			l.remember(in)
		}
	}
	l.notices()
}

// listing is one look at everything.
type listing struct {
	t       *Tailer
	inputs  []*input
	all     bool
	matched []matched
	told    map[notices.Subject]bool // whose notices are in files
	files   []FileStatus
}

// matched is a path that the patterns of an input match.
type matched struct {
	in      *input
	path    string
	st      inode.Status
	regular bool // a regular file is there, whose status is st
}

// match finds the paths that the patterns of an input match.
func (l *listing) match(in *input) {
	bare := in.Spec
	bare.Heard = false // no folder has to be watched for this
	if l.all {
		bare.Exclude = nil
	}
	for s := range finder.NewWalk().Match(&bare) {
		path := s.Path()
		st, err := inode.At(path)
		l.matched = append(l.matched, matched{in, path, st, err == nil && st.IsRegular()})
	}
}

// meet adds a matched path to the listing, unless its file is being read. The caller holds the mu of the
// tailer.
func (l *listing) meet(in *input, path string, st inode.Status, regular bool) {
	if regular && in.readers.Get(st.Node) != nil {
		return
	}
	f := FileStatus{File: record.File{Input: in.Name}, Path: path, Unread: NotRead}
	if regular {
		f.Size = st.Size
	}
	if k := in.byNode.get(st.Node); k != nil && regular {
		f.File, f.Read, f.Safe = k.file(), k.position, k.safe
	}
	_, copied := in.suspect[st.Node]
	packed := in.packed[st.Node]
	switch old := in.IgnoreOlder.D(); {
	case in.Excludes(path):
		f.Unread, f.Why = LeftOut, "exclude leaves it out"
	case l.notice(&f, notices.Subject{Path: path, Input: in.Name}), l.notice(&f, notices.Subject{Path: path}):
	case !regular:
		return // it is gone, or was seen by no scan yet
	case copied:
		f.Why = "it may be a copy of a file that is being read, and is read when that is settled"
	case packed != nil && packed.why() != "":
		f.Why = packed.why()
	case old > 0 && time.Since(time.Unix(0, st.Mtime)) > old:
		f.Unread, f.Why = LeftOut, fmt.Sprintf("it was not changed for longer than ignore_older allows (%v)", in.IgnoreOlder)
	default:
		f.Why = "it was found just now"
	}
	l.files = append(l.files, f)
}

// notice sets reason and fix of f to those of the notice about a subject, and reports whether there is
// one.
func (l *listing) notice(f *FileStatus, about notices.Subject) bool {
	n, is := l.t.notices.Of(about)
	f.Why, f.Fix = n.Why, n.Fix
	l.told[about] = true
	return is
}

// notices adds the notices that no listed file has: those of folders and, without a path, those of
// whole inputs.
func (l *listing) notices() {
	for about := range l.t.notices.All() {
		if l.told[about] {
			continue
		}
		f := FileStatus{File: record.File{Input: about.Input}, Path: about.Path, Unread: NotRead}
		l.notice(&f, about)
		l.files = append(l.files, f)
	}
}

// remember adds the generations that are remembered and not listed yet. The caller holds the mu of
// the tailer.
func (l *listing) remember(in *input) {
	met := make(map[record.File]bool)
	for _, f := range l.files {
		met[f.File] = true
	}
	for k := range in.known.All() {
		if k.reader != nil || met[k.file()] {
			continue
		}
		info := k.info.Info()
		f := FileStatus{File: k.file(), Path: info.Path, Size: info.Size, Read: k.position, Safe: k.safe, Unread: Remembered}
		switch {
		case k.isUnnamed():
			f.Why = "a power cut took the name of its file from the journal; it was not found by its id"
		case !in.byNode.has(k):
			f.Why = "the file has begun anew since"
		case info.Done:
			f.Why = "it is gone, or no longer matched, and was read to its end"
		default:
			f.Why = "it was not found; forgotten when it is gone for longer than forget_after"
		}
		l.files = append(l.files, f)
	}
}

// Seen is a path that an input's patterns match, or one that could not be looked at to see whether
// they do.
type Seen = look.Seen

// Found see look.Found.
type Found = look.Found

// Look see look.At. avoid and mine are as in Options.
func Look(inputs []Input, avoid []string, mine []*os.File) (*Found, error) {
	return look.At(inputs, finder.NewOwn(avoid, mine))
}
