// Package look tells what inputs would read, and why not, without reading it and without changing
// anything.
package look

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/notices"
	"kusto-agent/tail/internal/settings"
)

// Seen is a path that an input's patterns match, or one that could not be looked
// at to see whether they do.
type Seen struct {
	Input string
	Path  string
	Size  int64
	Err   error  // why it would not be read; nil: it would be
	Fix   string // what to do about it
	Shut  bool   // Path is a folder that we may not enter or list, and what is in it is not known
}

// Found is what At has found.
type Found struct {
	Files    []Seen
	Folders  int       // that would be watched
	Overlaps []Rotated // what would be sent twice
}

// At finds the files that inputs would read now and opens each once, with the rights of the caller,
// without reading it. own is what is never read. The error is one of the settings of an input.
func At(inputs []settings.Input, own *finder.Own) (*Found, error) {
	var all []*settings.Compiled
	x := looking{own: own, walk: finder.NewWalk(), taken: make(map[onRoute]string)}
	x.own.Begin()
	for _, i := range inputs {
		in, err := settings.Compile(i)
		if err != nil {
			return nil, err
		}
		all = append(all, in)
		x.shut, x.walk.Errs = make(map[string]bool), make(map[string]error)
		found := false
		for s := range x.walk.Match(&in.Spec) {
			found = true
			x.meet(in, s.Path())
		}
		x.unknown(in)
		if !found && len(x.walk.Errs) == 0 && len(in.Paths) > 0 {
			x.add(in, in.Paths[0], 0, notices.ErrNoMatch)
		}
	}
	return &Found{Files: x.seen, Folders: len(x.walk.Passed), Overlaps: overlaps(all, x.seen)}, nil
}

// Rotated is a file of one input and a path that rotation may give it or a copy of it, which another
// input of the same route matches and the first one does not.
type Rotated struct {
	Input, Path string
	By, Copy    string
}

// rotations are what is often put behind the name of a file by its rotation.
var rotations = []string{".1", ".1.gz", "-20270101", "-20270101.gz"}

// overlaps returns one example for each ordered pair of inputs of which the second reads what rotation
// makes of files of the first, out of those that were seen: a copy, as copytruncate and compression make
// it, is then sent twice, since each input knows only what it has read itself.
func overlaps(inputs []*settings.Compiled, seen []Seen) (all []Rotated) {
	byName := make(map[string]*settings.Compiled)
	for _, in := range inputs {
		byName[in.Name] = in
	}
	type pair struct{ of, by string }
	told := make(map[pair]bool)
	for _, s := range seen {
		of := byName[s.Input]
		if s.Err != nil {
			continue
		}
		for _, by := range inputs {
			for _, ending := range rotations {
				copied, p := s.Path+ending, pair{of.Name, by.Name}
				if by != of && by.Route == of.Route && !told[p] && by.Reads(copied) && !of.Reads(copied) && (by.Compressed != "never" || !compressed.IsNamed(copied)) {
					told[p] = true
					all = append(all, Rotated{of.Name, s.Path, by.Name, copied})
				}
			}
		}
	}
	return all
}

// onRoute is a file on a route.
type onRoute struct {
	node  inode.Node
	route record.Route
}

type looking struct {
	own   *finder.Own
	walk  *finder.Walk
	seen  []Seen
	taken map[onRoute]string // the input that has it
	shut  map[string]bool    // folders, told once for an input
}

// add notes a file that was seen, and why it cannot be read (nil: it can). A closed folder is noted
// once, in place of the files in it.
func (x *looking) add(in *settings.Compiled, path string, size int64, err error) {
	s := Seen{Input: in.Name, Path: path, Size: size, Err: err}
	if folder, shut := notices.ShutFolder(path, err); shut != nil {
		if x.shut[folder] {
			return
		}
		x.shut[folder] = true
		s.Path, s.Err, s.Shut = folder, shut, true
	} else if errors.Is(err, unix.EACCES) {
		st, err := os.Stat(path)
		s.Shut = err == nil && st.IsDir()
	}
	if s.Err != nil {
		s.Fix = notices.FixOf(s.Err)
	}
	x.seen = append(x.seen, s)
}

// meet notes whether the agent would read a file that matches: it opens the file and closes it at
// once.
func (x *looking) meet(in *settings.Compiled, path string) {
	if _, err := Match(x.own, path); err != nil { // opening it may do something
		x.add(in, path, 0, err)
		return
	}
	f, st, err := inode.Open(path)
	if err != nil {
		x.add(in, path, 0, err)
		return
	}
	how := archive.Packing(f, path, in.Compressed == "never")
	nested := nestedIn(f, how)
	f.Close()
	key := onRoute{st.Node, in.Route}
	switch rival := x.taken[key]; {
	case x.own.Holds(path, st.Node):
		err = notices.ErrOwn
	case how.IsForeign():
		err = notices.Foreign(how)
	case nested != nil:
		err = nested
	case rival == in.Name: // another of its names
		return
	case rival != "":
		err = notices.Rival(rival)
	default:
		x.taken[key] = in.Name
	}
	x.add(in, path, st.Size, err)
}

// nestedIn returns the compressed.NestedError of an open file that is compressed in this way; nil: it has none.
func nestedIn(f *os.File, how compressed.Kind) error {
	if !how.IsReadable() {
		return nil
	}
	_, done, err := compressed.Reader(f)
	if err == nil {
		done()
	}
	if nested := new(compressed.NestedError); errors.As(err, nested) {
		return *nested
	}
	return nil // any other error comes again when the file is read
}

// unknown adds the paths that the walk for an input could not examine.
func (x *looking) unknown(in *settings.Compiled) {
	for path, err := range x.walk.Errs {
		if !x.shut[path] {
			x.add(in, path, 0, err)
			x.shut[path] = true
		}
	}
}

// Match returns the status of a path that a pattern matches. The error says why the file there is
// not to be opened: its path lies in a folder of the agent, it is no regular file, or it cannot be
// looked at.
func Match(own *finder.Own, path string) (inode.Status, error) {
	if own.Names(path) {
		return inode.Status{}, notices.ErrOwn
	}
	st, err := inode.At(path)
	if err == nil && !st.IsRegular() {
		err = st.Kind()
	}
	return st, err
}
