package config

import (
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

// readFile returns the content of a file of at most maxFileSize bytes. The error is meant for
// people and does not name the file; it is errTooLarge for a larger file.
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

// unread returns the Problem to report for a file that cannot be read because of err. A file that
// exists but is too large is reported at 1:1, because every problem in an existing file needs a
// position.
func unread(path string, err error) Problem {
	p := Problem{File: path, Message: err.Error()}
	if errors.Is(err, errTooLarge) {
		p.Line, p.Col = 1, 1
	}
	return p
}

// cause returns the text for an error of opening or reading a file, without its path, and with what
// to do about it. verb is what failed: open or read.
func cause(verb string, err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	words := verb + " file: " + err.Error()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		words += "; write one there, or name another with --config"
	case errors.Is(err, fs.ErrPermission):
		words += "; run the command with sudo, or if the agent itself says this, let its user read the file"
	case errors.Is(err, syscall.EISDIR):
		words += "; want a file"
	}
	return words
}

// maxIncluded is how many files may be included.
const maxIncluded = 1000

// included returns the files that the patterns of include match, each once and without the main
// file, in the order of the patterns and then of the names. A pattern may match nothing; a plain
// file name must exist and not be that of the main file. Mistakes are reported; if more than maxIncluded files match, none is
// returned.
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
		case strings.ContainsAny(pattern, "*?[{"): // it may match nothing, or the main file with others
		case len(found) == 0:
			l.main.bad(at, "there is no such file; write one there, or leave it out")
		case realName(found[0]) == realName(l.name):
			l.main.bad(at, "the main file itself; name files that hold only inputs, or leave it out")
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

// include reads an included file and adds its inputs to the configuration. A file that cannot be read
// is reported as a mistake.
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
	src := newSource(path, text, l.out)
	var doc includedDoc
	if l.document(src, &doc) {
		l.inputs(doc.Inputs, src)
	}
}

// inFolder returns the full path of a file that is named relative to the folder of the main file.
func (l *loader) inFolder(file string) string {
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(l.name), file)
	}
	return Absolute(file)
}
