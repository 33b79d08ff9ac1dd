package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/inode"
)

// The file of a batch in doubt may have been moved since, with its folder or
// alone, or there is but a copy of it left. It is looked for in the places where
// it most likely is; the mark of the extent decides whether it is the one.

// findSource opens a file that has the bytes of an extent: the file itself, wherever it was
// moved, or what is now at its old path if the mark of the extent fits. With copies, it also
// accepts any other file with these bytes. The error is ErrSourceGone if there is no such file.
// It is another error if that is not certain, because a file or one of the folders cannot be
// read.
func findSource(in *input, info record.FileInfo, x record.Extent, copies bool) (*os.File, error) {
	path, ok := in.folders.findNode(info)
	if !ok {
		path = info.Path // perhaps another file with the same bytes
	}
	f, _, err := inode.Open(path)
	if err == nil {
		if err = holds(f, x); err == nil && (ok || x.Mark != 0) {
			return f, nil
		}
		f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrSourceGone) {
		return nil, err
	}
	if f := findElsewhere(in, info, x, copies); f != nil {
		return f, nil
	}
	if err := finder.Shut(info.Paths()); err != nil {
		return nil, err
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: file was moved or deleted", ErrSourceGone)
	}
	return nil, err
}

// findElsewhere looks for a file with the bytes of the range x in other places than findSource. It
// prefers the file itself to another one, which counts only with copies. nil: there is none. The
// caller closes the file.
func findElsewhere(in *input, info record.FileInfo, x record.Extent, copies bool) *os.File {
	if path, ok := in.folders.FindNear(info.Path, inode.Of(info)); ok {
		if f, _, err := inode.Open(path); err == nil {
			if holds(f, x) == nil {
				return f
			}
			f.Close()
		}
	}
	var alike *os.File
	for _, path := range placesOf(in, info) {
		f, st, err := inode.Open(path)
		if err != nil {
			continue
		}
		same := st.Ino == info.Inode && st.Birth == info.Birth
		switch {
		case holds(f, x) != nil, !same && (!copies || alike != nil || x.Mark == 0 || !beginsAs(f, info.Head)):
			f.Close()
		case !same:
			alike = f
		default:
			if alike != nil {
				alike.Close()
			}
			return f
		}
	}
	return alike
}

// beginsAs reports whether the file begins with the content whose head is want; an empty one is
// that of any file: then the mark before the position is a hash of all its content.
func beginsAs(f *os.File, want record.Head) bool {
	h, err := fingerprint.HeadOfLen(f, want.Len)
	return err == nil && h == want
}

// placesOf returns paths at which a file may be found that has left its own: all that the input
// matches, and those in its folders whose names begin with its name. They are sorted, each once.
func placesOf(in *input, info record.FileInfo) []string {
	var places []string
	for s := range finder.NewWalk().Match(&in.Spec) {
		places = append(places, s.Path())
	}
	names := append(info.Paths(), info.First)
	if now, ok := in.folders.findNode(info); ok {
		names = append(names, now)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		dir, base := filepath.Split(name)
		beside, _ := os.ReadDir(dir) // what cannot be listed counts as empty
		for _, e := range beside {
			if e.Type().IsRegular() && strings.HasPrefix(e.Name(), base) {
				places = append(places, dir+e.Name())
			}
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}
