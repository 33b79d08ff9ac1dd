// Package reread promises that the records of a payload are read again from its source files: the
// same bytes in the same order, or an error that says what is in the way; or, where the
// settings of an input have changed, what these make of the same ranges.
package reread

import (
	"errors"
	"fmt"
	"io"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/settings"
)

// ErrSourceGone says that a file no longer holds the bytes a batch was made
// of, or cannot be found.
var ErrSourceGone = errors.New("source is gone")

// ErrReshaped says that an input sends its files elsewhere, or in another shape, than
// when a batch was made of them.
var ErrReshaped = errors.New("input has other settings now")

// ErrNotConfigured says that no input has the name of the one that read a batch.
var ErrNotConfigured = errors.New("its input is not configured")

// Source is the bytes of a file, or what is in it if it is compressed.
type Source interface {
	io.ReaderAt
	io.Closer
}

// Files are those that payloads were made of. Its methods are for any goroutine.
type Files interface {
	// Of returns what is remembered of a file. The error is ErrNotConfigured if no input, also no
	// removed one, has the name of its input, and ErrSourceGone if nothing is known of the file.
	Of(f record.File) (Remembered, error)
	// Open opens the file of a range, wherever it is now, and checks that it holds the bytes of the
	// range. The error is ErrSourceGone if no file has them; a file that exists but cannot be
	// read now does not count as gone. The caller closes the file.
	Open(x record.Extent) (Source, error)
	// Holds returns nil if an open file has the bytes of a range. The error is ErrSourceGone if it
	// has not, or one of reading.
	Holds(f Source, x record.Extent) error
	// Redacting returns the input of this name if it redacts, else nil.
	Redacting(input string) *settings.Compiled
}

// Remembered is a file that is known, and the settings of its input.
type Remembered struct {
	In     *settings.Compiled
	Info   record.FileInfo
	Former bool // the input is no longer configured
}

// Reader reads payloads again. It is for any goroutine.
type Reader struct{ Files }

// sources are the open files of a payload.
type sources map[record.File]Source

func (s sources) close() {
	for _, f := range s {
		f.Close()
	}
}

// openSources opens the files of ranges, as openSource does. The caller closes the files, also after
// an error.
func (r Reader) openSources(all []record.Extent) (sources, error) {
	files := make(sources)
	for _, x := range all {
		if err := r.openSource(files, x); err != nil {
			return files, err
		}
	}
	return files, nil
}

// openSource opens the file of the range x and stores it in files, or checks that the one in files
// has the bytes of x. The errors are those of Files.Open.
func (r Reader) openSource(files sources, x record.Extent) error {
	f := files[x.File]
	var err error
	if f != nil {
		err = r.Holds(f, x)
	} else if f, err = r.Open(x); err == nil {
		files[x.File] = f
	}
	if err != nil {
		return fmt.Errorf("read %v %v: %w", x.File, x.Span, err)
	}
	return nil
}

// GoneIf wraps err as ErrSourceGone if it is one of ends.
func GoneIf(err error, ends ...error) error {
	for _, end := range ends {
		if errors.Is(err, end) {
			return fmt.Errorf("%w: %w", ErrSourceGone, err)
		}
	}
	return err
}
