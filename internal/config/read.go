package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

var errTooLarge = fmt.Errorf("larger than %d KiB; want a file that a person could read, or several by include", maxFileSize>>10)

// readFile reads a whole file, of whatever kind, up to the bound.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.New(cause("open", err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	switch {
	case err != nil:
		return nil, errors.New(cause("read", err))
	case len(text) > maxFileSize:
		return nil, errTooLarge
	}
	return text, nil
}

// unread is the problem of a file that could not be taken in. One that is there
// has a place, as all mistakes in it would have.
func unread(path string, err error) Problem {
	p := Problem{File: path, Message: err.Error()}
	if errors.Is(err, errTooLarge) {
		p.Line, p.Col = 1, 1
	}
	return p
}

// cause says what went wrong without the path, which stands before it, and what
// to do about it.
func cause(verb string, err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	words := verb + " file: " + err.Error()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		words += "; write one there, or name another with --config"
	case errors.Is(err, fs.ErrPermission):
		words += "; let the user the agent runs as read it"
	case errors.Is(err, syscall.EISDIR):
		words += "; want a file"
	}
	return words
}

// newText makes a source of a file, and its text ready to parse.
func newText(name string, text []byte, out *report) (*source, []byte) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	return newSource(name, text, out), text
}

// maxIncluded is how many files may be included.
const maxIncluded = 1000

// included is the files that the patterns of include match, each once, in the
// order of the patterns and of their names. A pattern may match nothing; the
// name of one file may not.
func (l *loader) included() (files []string) {
	seen := map[string]bool{realName(l.name): true}
	for i, pattern := range l.doc.Include {
		at := fmt.Sprintf("include[%d]", i)
		var found []string
		err := glob(filepath.Dir(l.name), pattern, func(file string) error {
			found = append(found, file)
			return nil
		})
		switch {
		case err != nil || pattern == "":
			l.main.bad(at, "not a pattern of files; want one such as conf.d/*.yaml")
		case len(found) == 0 && !strings.ContainsAny(pattern, "*?[{"):
			l.main.bad(at, "there is no such file")
		}
		slices.Sort(found)
		for _, file := range found {
			if !seen[realName(file)] {
				seen[realName(file)] = true
				files = append(files, file)
			}
		}
		if len(files) > maxIncluded {
			l.main.bad(at, "more than %d files to include", maxIncluded)
			return nil
		}
	}
	return files
}

// include reads the inputs of one included file.
func (l *loader) include(path string) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a plain file")
	}
	var text []byte
	if err == nil {
		text, err = readFile(path)
	}
	if err != nil {
		l.out.add(unread(path, err))
		return
	}
	l.cfg.Files = append(l.cfg.Files, path)
	src, text := newText(path, text, l.out)
	var doc includedDoc
	if l.document(text, src, &doc) {
		l.inputs(doc.Inputs, src)
	}
}

// inFolder is the full path of a file that is named relative to the folder of
// the main file.
func (l *loader) inFolder(file string) string {
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(l.name), file)
	}
	if full, err := filepath.Abs(file); err == nil {
		return full
	}
	return file
}
