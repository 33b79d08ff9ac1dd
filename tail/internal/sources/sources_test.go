package sources

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/reread"
)

const text = "one line of a log\nand a second one\nand a third one\n"

// was writes a file and returns what is known of it, and the range of its second line.
func was(t *testing.T, path string) (record.FileInfo, record.Extent) {
	t.Helper()
	write(t, path, text)
	return known(t, path)
}

// known returns what is known of a file, and a range in it.
func known(t *testing.T, path string) (record.FileInfo, record.Extent) {
	t.Helper()
	f, st, err := inode.Open(path)
	must(t, err)
	defer f.Close()
	head, err := fingerprint.HeadOf(f, st.Size)
	must(t, err)
	mark, err := fingerprint.MarkAt(f, 35)
	must(t, err)
	info := record.FileInfo{Path: path, First: path, Dev: st.Dev, Inode: st.Ino, Birth: st.Birth, Handle: inode.Handle(f), Size: st.Size, Head: head}
	id := inode.NewID(st.Node, info.Handle, 1)
	return info, record.Extent{File: record.File{Input: "in", ID: id}, Span: record.Span{Start: 18, End: 35}, Mark: mark}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The bytes of a range are found wherever the file is now, and never taken from a file that has others.
func TestOpen(t *testing.T) {
	f := func(name string, copies bool, found bool, change func(t *testing.T, dir, path string)) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "logs", "a.log")
			info, x := was(t, path)
			pattern, err := finder.NewPattern(filepath.Join(dir, "logs", "*.log"))
			must(t, err)
			s := Search{Folders: &finder.Folders{}, Spec: &finder.Spec{Patterns: []finder.Pattern{pattern}}, Look: NewLook()}
			change(t, dir, path)
			source, err := s.Open(info, x, copies)
			switch {
			case found && err == nil:
				defer source.Close()
				line := make([]byte, x.Len())
				_, err := source.ReadAt(line, x.Start)
				if must(t, err); string(line) != "and a second one\n" {
					t.Errorf("it holds %q", line)
				}
			case found || !errors.Is(err, reread.ErrSourceGone):
				t.Errorf("found: %v, want %v; %v", err == nil, found, err)
			}
		})
	}
	rename := func(name string) func(*testing.T, string, string) {
		return func(t *testing.T, dir, path string) {
			to := filepath.Join(dir, name)
			must(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Rename(path, to)))
		}
	}
	f("where it was", false, true, func(*testing.T, string, string) {})
	f("under another name", false, true, rename("logs/a.log.1"))
	f("under another name, another file at its path", false, true, func(t *testing.T, dir, path string) {
		rename("logs/a.log.1")(t, dir, path)
		write(t, path, "something else that is longer than what was read of the other file\n")
	})
	f("in another folder", false, true, rename("old/a.log"))
	f("in a renamed folder", false, true, func(t *testing.T, dir, _ string) {
		must(t, os.Rename(filepath.Join(dir, "logs"), filepath.Join(dir, "moved")))
	})
	f("replaced by the same bytes", false, true, func(t *testing.T, _, path string) {
		must(t, os.Remove(path))
		write(t, path, text)
	})
	f("a copy", true, true, func(t *testing.T, dir, path string) {
		must(t, os.Remove(path))
		write(t, filepath.Join(dir, "logs", "b.log"), text)
	})
	for _, name := range []string{"logs/a.log.1", "logs/a-20261127.log", "logs/old/a.log.1", "old/a-20261127.log"} {
		f("a copy at "+name, true, true, func(t *testing.T, dir, path string) {
			must(t, os.Remove(path))
			write(t, filepath.Join(dir, name), text)
		})
	}
	f("a copy with another name in a folder that no pattern matches", true, false, func(t *testing.T, dir, path string) {
		must(t, os.Remove(path))
		write(t, filepath.Join(dir, "old", "b.log"), text)
	})
	f("a copy that does not count", false, false, func(t *testing.T, dir, path string) {
		must(t, os.Remove(path))
		write(t, filepath.Join(dir, "logs", "b.log"), text)
	})
	f("a file with the same line after another beginning", true, false, func(t *testing.T, dir, path string) {
		must(t, os.Remove(path))
		write(t, filepath.Join(dir, "logs", "b.log"), "ONE line of a log\n"+text[18:])
	})
	f("rewritten", true, false, func(t *testing.T, _, path string) { write(t, path, strings.ToUpper(text)) })
	f("deleted", true, false, func(t *testing.T, _, path string) { must(t, os.Remove(path)) })
}

// Many files that are gone are looked for together: each is found by its own copy, or where it was moved, and
// what is gone is gone.
func TestOpenMany(t *testing.T) {
	dir := t.TempDir()
	pattern, err := finder.NewPattern(filepath.Join(dir, "logs", "*"))
	must(t, err)
	s := Search{Folders: &finder.Folders{}, Spec: &finder.Spec{Patterns: []finder.Pattern{pattern}}, Look: NewLook()}
	type gone struct {
		info record.FileInfo
		x    record.Extent
		at   string // empty: nowhere
	}
	var all []gone
	for i := range 3 * few {
		path := filepath.Join(dir, "home", fmt.Sprintf("a.%d", i))
		text := fmt.Sprintf("file %02d has a line\n%s", i, text)
		write(t, path, text)
		info, x := known(t, path)
		at := filepath.Join(dir, []string{"logs", "home"}[i/3%2], fmt.Sprintf("a.was%d", i))
		switch i % 3 {
		case 0:
			write(t, at, text)
			must(t, os.Remove(path))
		case 1:
			must(t, errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Rename(path, at)))
		case 2:
			must(t, os.Remove(path))
			at = ""
		}
		all = append(all, gone{info, x, at})
	}
	for _, g := range all {
		source, err := s.Open(g.info, g.x, true)
		switch f, _ := source.(*os.File); {
		case g.at == "" && !errors.Is(err, reread.ErrSourceGone), g.at != "" && (f == nil || f.Name() != g.at):
			t.Errorf("%s is found at %v, want %q; %v", g.info.Path, source, g.at, err)
		case f != nil:
			must(t, f.Close())
		}
	}
}

// A file that is known by its id alone is found by that, under any salt that is compared.
func TestOpenByID(t *testing.T) {
	dir := t.TempDir()
	info, x := was(t, filepath.Join(dir, "a.log"))
	write(t, filepath.Join(dir, "b.log"), text)
	pattern, err := finder.NewPattern(filepath.Join(dir, "*.log"))
	must(t, err)
	s := Search{Folders: &finder.Folders{}, Spec: &finder.Spec{Patterns: []finder.Pattern{pattern}}, Look: NewLook()}
	source, err := s.OpenByID(x)
	must(t, err)
	if f, is := source.(*os.File); !is || f.Name() != info.Path {
		t.Errorf("found %v, want %s", source, info.Path)
	}
	must(t, source.Close())
	x.File.ID++
	if source, err := s.OpenByID(x); source != nil || err != nil {
		t.Errorf("another id is that of %v; %v", source, err)
	}
}

// A compressed copy stands for its original if it begins alike and has the bytes of the range.
func TestOpenPackedBeside(t *testing.T) {
	dir := t.TempDir()
	info, x := was(t, filepath.Join(dir, "logs", "a.log"))
	s := Search{Folders: &finder.Folders{}, Spec: &finder.Spec{}, Look: NewLook()}
	pack := func(name, text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		f, err := os.Create(filepath.Join(dir, name))
		must(t, err)
		z := gzip.NewWriter(f)
		_, err = io.WriteString(z, text)
		must(t, errors.Join(err, z.Close(), f.Close()))
	}
	pack("logs/a.log.1.gz", strings.ToUpper(text))
	pack("logs/b.log.1.gz", text)
	if z := s.OpenPackedBeside(info, x); z != nil {
		t.Error("a file with other bytes, or of another name, is taken for a copy")
	}
	s.Folders = &finder.Folders{}
	pack("old/a.log.2.gz", text)
	z := s.OpenPackedBeside(info, x)
	if z == nil {
		t.Fatal("the copy in the folder beside is not found")
	}
	defer z.Close()
	line := make([]byte, x.Len())
	_, err := z.ReadAt(line, x.Start)
	if must(t, err); string(line) != "and a second one\n" {
		t.Errorf("it holds %q", line)
	}
}
