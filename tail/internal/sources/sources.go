// Package sources finds the bytes of a range again after its file was renamed, moved to another
// folder, copied or compressed: what it opens has the bytes at the end of the range, as far as
// their mark tells.
package sources

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/reread"
	"kusto-agent/tail/internal/rotation"
)

// Search looks for files of one input. It is for any goroutine, but for its Look.
type Search struct {
	Folders *finder.Folders
	Spec    *finder.Spec // where copies may be
	Look    *Look        // for the files that are looked for together
}

// Open opens the file of the range x, whose facts are info: the file itself, wherever it was moved,
// or what is now at its old path if the mark of the range fits. With copies, another file with its
// bytes will do. The error is reread.ErrSourceGone if there is no such file. It is another error if
// that is not certain, because a file or one of the folders cannot be read. The caller closes the
// source.
func (s Search) Open(info record.FileInfo, x record.Extent, copies bool) (reread.Source, error) {
	if info.Packed.Size > 0 {
		return s.openPacked(info, x)
	}
	f, err := s.openPlain(info, x, copies)
	if err != nil {
		return nil, err // not f, a nil pointer that would be no nil source
	}
	return f, nil
}

// openPacked is Open for a compressed file, which is looked for by its inode alone.
func (s Search) openPacked(info record.FileInfo, x record.Extent) (reread.Source, error) {
	path, ok := s.Folders.FindInfo(info)
	if !ok {
		return nil, s.goneUnlessShut(info)
	}
	file, st, err := inode.Open(path)
	if err != nil {
		return nil, reread.GoneIf(err, fs.ErrNotExist)
	}
	f := unpacked(file, st, info.Size)
	if err := Holds(f, x); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openPlain is Open for a file that is not compressed.
func (s Search) openPlain(info record.FileInfo, x record.Extent, copies bool) (*os.File, error) {
	path, ok := s.Folders.FindInfo(info)
	if !ok {
		path = info.Path // perhaps another file with the same bytes
	}
	f, _, err := inode.Open(path)
	if err == nil {
		if err = Holds(f, x); err == nil && (ok || x.Mark != 0) {
			return f, nil
		}
		f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, reread.ErrSourceGone) {
		return nil, err
	}
	if f := s.openElsewhere(info, x, copies); f != nil {
		return f, nil
	}
	if gone := s.goneUnlessShut(info); err == nil || errors.Is(err, fs.ErrNotExist) || !errors.Is(gone, reread.ErrSourceGone) {
		return nil, gone
	}
	return nil, err
}

// goneUnlessShut returns the error of a file that was not found: ErrSourceGone, or why one of the
// folders where it may be cannot be read.
func (s Search) goneUnlessShut(info record.FileInfo) error {
	if err := s.Folders.Shut(info.Paths()); err != nil {
		return err
	}
	return fmt.Errorf("%w: file was moved or deleted", reread.ErrSourceGone)
}

// openElsewhere looks for a file with the bytes of the range x in other places than its own. It
// prefers the file itself to another one, which counts only with copies. nil: there is none. The
// caller closes the file.
func (s Search) openElsewhere(info record.FileInfo, x record.Extent, copies bool) *os.File {
	if path, ok := s.Folders.FindNear(info.Path, inode.Of(info)); ok {
		if f, _, err := inode.Open(path); err == nil {
			if Holds(f, x) == nil {
				return f
			}
			f.Close()
		}
	}
	var alike *os.File
	for _, path := range s.places(info, copies && x.Mark != 0) {
		f, st, err := inode.Open(path)
		if err != nil {
			continue
		}
		same := st.SameIn(inode.Of(info))
		switch {
		case Holds(f, x) != nil, !same && (!copies || alike != nil || x.Mark == 0 || !fingerprint.BeginsAs(f, info.Head)):
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

// places returns paths at which a file may be found that has left its own, or with copies another one that
// begins as it: of all that the input matches, and those named after it in its folders and in those to which
// rotation may move files. They are sorted, each once.
func (s Search) places(info record.FileInfo, copies bool) (all []string) {
	add := func(p *pool) {
		all = append(all, p.withInode(info.Inode)...)
		if copies {
			all = append(all, p.beginning(info.Head)...)
		}
	}
	add(s.Look.matches(s.Spec))
	names := append(info.Paths(), info.First)
	if now, ok := s.Folders.FindInfo(info); ok {
		names = append(names, now)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		dir, base := filepath.Split(name)
		for _, folder := range s.Folders.Around(dir) {
			add(s.Look.named(folder, base))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// OpenByID opens the file of the range x of which only its id is known, among those that the patterns
// match. nil without an error: no match has the id; with one: a match could not be examined. The
// caller closes the source.
func (s Search) OpenByID(x record.Extent) (reread.Source, error) {
	w := finder.NewLook()
	var unclear error
	for found := range w.Match(s.Spec) {
		if st, err := inode.At(found.Path()); err == nil && !st.IsRegular() {
			continue
		}
		f, st, err := inode.Open(found.Path())
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				unclear = err
			}
			continue
		}
		if x.Mark != 0 && inode.IsID(x.File.ID, st.Node, inode.Handle(f)) && Holds(f, x) == nil {
			return f, nil
		}
		f.Close()
	}
	for _, err := range w.Errs {
		unclear = err
	}
	return nil, unclear
}

// OpenPackedBeside opens a compressed copy of the file that info describes, if one beside it has the
// same beginning and the bytes of the range x; nil: there is none. The caller closes it.
func (s Search) OpenPackedBeside(info record.FileInfo, x record.Extent) reread.Source {
	for _, path := range s.packedBeside(info) {
		f, st, err := inode.Open(path)
		if err != nil {
			continue
		}
		z := unpacked(f, st, archive.UnknownSize)
		if fingerprint.BeginsAs(z, info.Head) && Holds(z, x) == nil {
			return z
		}
		z.Close()
	}
	return nil
}

// packedBeside is PackedBeside for one file of those that are looked for together.
func (s Search) packedBeside(info record.FileInfo) (found []string) {
	were := append(info.Paths(), info.First)
	for _, at := range were {
		dir := filepath.Dir(at)
		for _, folder := range s.Folders.Around(dir) {
			for _, was := range were {
				found = append(found, s.Look.named(folder, filepath.Base(was)).paths...)
			}
		}
	}
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(path string) bool { return !compressed.IsNamed(path) })
}

// PackedBeside returns the compressed files whose names show that they may be copies of the given
// files, in the folders where those were, and in those to which rotation may move files.
func PackedBeside(folders *finder.Folders, infos ...record.FileInfo) (found []string) {
	were, near := make(map[string]rotation.Names), make(map[string]rotation.Names)
	for _, info := range infos {
		paths := append(info.Paths(), info.First)
		for _, path := range paths {
			dir := filepath.Dir(path)
			if were[dir] == nil {
				were[dir] = make(rotation.Names)
			}
			for _, was := range paths {
				were[dir].Add(filepath.Base(was))
			}
		}
	}
	for dir, all := range were {
		for _, folder := range folders.Around(dir) {
			if near[folder] == nil {
				near[folder] = make(rotation.Names)
			}
			maps.Copy(near[folder], all)
		}
	}
	for dir, all := range near {
		entries, _ := os.ReadDir(dir) // what cannot be read has nothing to find
		for _, e := range entries {
			if compressed.IsNamed(e.Name()) && e.Type().IsRegular() && all.HasOf(e.Name()) {
				found = append(found, filepath.Join(dir, e.Name()))
			}
		}
	}
	return found
}

// packed is what is in an open compressed file.
type packed struct {
	archive.Source
	f *os.File
}

// Close closes the file too.
func (p *packed) Close() error {
	p.Free()
	return p.f.Close()
}

// unpacked returns the content of an open file that was compressed when it was last seen. size is
// the length of the content, or archive.UnknownSize. The source reads from f and closes it. If f is
// no longer compressed, the source is f itself.
func unpacked(f *os.File, st inode.Status, size int64) reread.Source {
	how, _, _ := compressed.KindAt(f)
	if !how.IsReadable() {
		return f // it was replaced: what is there does not fit
	}
	p := &packed{archive.NewSource(how, st.Size, size), f}
	p.From(f)
	return p
}

// Holds returns nil if an open file has the bytes of the range x, by the mark at its end (a hash of
// the last bytes). The error is reread.ErrSourceGone if it has not, or one of reading. Of a
// compressed file it reads all of x.
func Holds(f reread.Source, x record.Extent) error {
	m, err := markAfter(f, x)
	if err != nil {
		return reread.GoneIf(err, io.EOF, io.ErrUnexpectedEOF, archive.ErrChanged)
	}
	if x.Mark != 0 && m != x.Mark {
		return fmt.Errorf("%w: its content has changed", reread.ErrSourceGone)
	}
	return nil
}

// markAfter returns the mark at the end of the range x. Of a compressed file it reads all of x first,
// from the start on, so that the bytes of x are in memory for the reads that follow.
func markAfter(f reread.Source, x record.Extent) (record.Mark, error) {
	if _, is := f.(*packed); is && x.Len() <= reread.MostRecord {
		from := max(x.Start-record.MarkLen, 0)
		b := make([]byte, x.End-from)
		if _, err := fingerprint.ReadFull(f, b, from); err != nil && err != io.EOF {
			return 0, err
		}
	}
	return fingerprint.MarkAt(f, x.End)
}
