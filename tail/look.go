package tail

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
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

// Look finds the files that inputs would read now and opens each once, with the rights of
// the caller, without reading it. folders counts the folders that would be watched. avoid
// and mine are as in Options.
func Look(inputs []Input, avoid []string, mine []*os.File) (seen []Seen, folders int, err error) {
	x := looking{own: newOwn(Options{Avoid: avoid, Own: mine}), walk: finder.NewWalk(), taken: make(map[onRoute]string)}
	x.own.Begin()
	for _, i := range inputs {
		in, err := newInput(i)
		if err != nil {
			return nil, 0, err
		}
		x.shut, x.walk.Errs = make(map[string]bool), make(map[string]error)
		sightings := x.walk.Match(&in.spec)
		for _, s := range sightings {
			x.meet(in, s.Path())
		}
		x.unknown(in)
		if len(sightings) == 0 && len(x.walk.Errs) == 0 && len(in.Paths) > 0 {
			x.add(in, in.Paths[0], 0, errNoMatch)
		}
	}
	return x.seen, len(x.walk.Passed), nil
}

// onRoute is a file on a route.
type onRoute struct {
	node  node
	route record.Route
}

type looking struct {
	own   *finder.Own
	walk  *finder.Walk
	seen  []Seen
	taken map[onRoute]string // the input that has it
	shut  map[string]bool    // folders, told once for an input
}

// add notes a file that was seen; err is why it cannot be read, nil: it can. If the
// reason is a closed folder, the folder is noted once, in place of the files in it.
func (x *looking) add(in *input, path string, size int64, err error) {
	s := Seen{Input: in.Name, Path: path, Size: size, Err: err}
	if folder, shut := shutFolder(path, err); shut != nil {
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
		s.Fix = fixOf(s.Err)
	}
	x.seen = append(x.seen, s)
}

// meet notes for a path that a pattern of the input matches whether the agent would read the file: it
// opens the file and closes it at once. Reasons against are, for example, missing permission, or
// another input of the same route that reads the file.
func (x *looking) meet(in *input, path string) {
	if _, err := statMatch(x.own, path); err != nil { // opening it may do something
		x.add(in, path, 0, err)
		return
	}
	f, st, err := openFile(path)
	if err != nil {
		x.add(in, path, 0, err)
		return
	}
	f.Close()
	key := onRoute{st.node, in.Route}
	switch rival := x.taken[key]; {
	case x.own.Holds(path, st.found()):
		err = errOwn
	case rival == in.Name: // another of its names
		return
	case rival != "":
		err = errRival(rival)
	default:
		x.taken[key] = in.Name
	}
	x.add(in, path, st.size, err)
}

// unknown adds the paths that the walk for an input could not examine.
func (x *looking) unknown(in *input) {
	for path, err := range x.walk.Errs {
		if !x.shut[path] {
			x.add(in, path, 0, err)
			x.shut[path] = true
		}
	}
}
