package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
)

// A power cut can take the entry by which the journal knows a file, and leave a payload
// of it that the spool had synced. Of such a generation the journal has ranges and no
// node. The id of a file follows from its node, so the file is found by that.

// isUnnamed reports whether nothing is known by which the file of a generation could be
// found, but its id.
func (k *known) isUnnamed() bool {
	info := k.info.Info()
	return info.Path == "" && info.Inode == 0
}

// isComparable reports whether a file can be compared with what was read of a generation.
func (k *known) isComparable() bool {
	return (k.position == 0 || k.mark != 0) && !slices.ContainsFunc(k.ahead, func(x record.Extent) bool { return x.Mark == 0 })
}

// name notes what file a generation is of.
func (k *known) name(path string, n node, handle string) {
	info := k.info.Info()
	info.Path, info.First = path, path
	info.Dev, info.Inode, info.Birth, info.Handle = n.dev, n.ino, n.birth, handle
	k.info = info.Facts()
}

// mostSalts is with how many salts the id of a file is compared.
const mostSalts = 4

// claim notes path, node and handle of an open file with the generations whose file the journal
// does not know, if they bear the id of this file. A power cut can leave such generations, of which
// only the id and the read ranges are known. From then on the file is compared with them as with
// its own earlier content. A file without birth time and handle is left out, because its id may be
// that of an earlier file with the same inode. The caller holds mu.
func (in *input) claim(path string, n node, handle string) {
	if len(in.unnamed) == 0 || in.byNode.get(n) != nil || n.birth == 0 && handle == "" {
		return
	}
	for salt := range uint64(mostSalts) {
		id := newID(n, handle, salt)
		for _, k := range in.unnamed[id] { // sorted by generation
			if in.known.Get(k.file()) == k && k.isComparable() { // not one that was forgotten or has no marks to compare
				k.name(path, n, handle)
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

// findUnnamed finds the file of the range x if the journal knows only its id, and returns it open.
// It tries the files that the patterns of the input match, and takes the one that has the id and
// the bytes of x. The error is ErrSourceGone only if a scan has ended, because scans also find
// rotated and compressed files, and if every match could be examined.
func (t *Tailer) findUnnamed(in *input, x record.Extent) (source, error) {
	w := finder.NewWalk()
	var unclear error
	for _, s := range w.Match(&in.spec) {
		if st, err := statPath(s.Path()); err == nil && !st.regular {
			continue
		}
		f, st, err := openFile(s.Path())
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				unclear = err
			}
			continue
		}
		if x.Mark != 0 && isOf(x.File.ID, st.node, handleOf(f)) && holds(f, x) == nil {
			return f, nil
		}
		f.Close()
	}
	for _, err := range w.Errs {
		unclear = err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.scans == 0:
		return nil, errUnscanned
	case unclear != nil:
		return nil, unclear
	}
	return nil, fmt.Errorf("%w: no file has its id", ErrSourceGone)
}

// isOf reports whether id is a file id that newID makes of a node and a file handle. newID adds a
// salt if the id is taken, so the first few salts are tried.
func isOf(id record.FileID, n node, handle string) bool {
	for salt := range uint64(mostSalts) {
		if newID(n, handle, salt) == id {
			return true
		}
	}
	return false
}
