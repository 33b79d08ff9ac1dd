package tail

import (
	"errors"
	"fmt"
	"slices"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/reread"
	"kusto-agent/tail/internal/sources"
)

// A power cut can take the entry by which the journal knows a file, and leave a payload
// of it that the spool had synced. Of such a generation the journal has ranges and no
// node. The id of a file follows from its node, so the file is found by that.

// isUnnamed reports whether nothing is known by which the file of a generation could be
// found, but its id.
func (k *generation) isUnnamed() bool {
	info := k.info.Info()
	return info.Path == "" && info.Inode == 0
}

// isComparable reports whether a file can be compared with what was read of a generation.
func (k *generation) isComparable() bool {
	return (k.position == 0 || k.mark != 0) && !slices.ContainsFunc(k.ahead, func(x record.Extent) bool { return x.Mark == 0 })
}

// name notes what file a generation is of.
func (k *generation) name(path string, n inode.Node, handle string) {
	info := k.info.Info()
	info.Path, info.First = path, path
	info.Dev, info.Inode, info.Birth, info.Handle = n.Dev, n.Ino, n.Birth, handle
	k.info = info.Facts()
}

// claim notes an open file with the generations whose file the journal does not know, if they bear
// its id: a power cut can leave such. A file without birth time and handle is left out, because its
// id may be that of an earlier file. The caller holds mu.
func (in *input) claim(path string, n inode.Node, handle string) {
	if len(in.unnamed) == 0 || in.byNode.get(n) != nil || n.Birth == 0 && handle == "" {
		return
	}
	for salt := range uint64(inode.MostSalts) {
		id := inode.NewID(n, handle, salt)
		for _, k := range in.unnamed[id] { // sorted by generation
			if in.known.Get(k.file()) == k && k.isComparable() { // not one that was forgotten or has no marks to compare
				k.name(path, n, handle)
				in.known.Put(k)
				in.byNode.put(k)
			}
		}
		delete(in.unnamed, id)
		if in.byNode.get(n) != nil {
			return
		}
	}
}

// errUnscanned is why a file that is known by its id alone does not count as gone yet: a
// scan also finds files that were rotated, and compressed ones.
var errUnscanned = errors.New("files were not looked for yet")

// findUnnamed finds the file of the range x if the journal knows only its id, among those that the
// patterns match, and returns it open. The error is ErrSourceGone only if a scan has ended, because
// scans also find rotated and compressed files, and if every match could be examined.
func (t *Tailer) findUnnamed(s sources.Search, x record.Extent) (reread.Source, error) {
	f, unclear := s.OpenByID(x)
	switch {
	case f != nil:
		return f, nil
	case !t.Scanned():
		return nil, errUnscanned
	case unclear != nil:
		return nil, unclear
	}
	return nil, fmt.Errorf("%w: no file has its id", ErrSourceGone)
}
