package archive

import (
	"io"

	"kusto-agent/internal/compressed"
)

// Packing returns how an open file is compressed, by its first bytes. One that is too short to tell
// counts as compressed only by its name. With never (no compressed file is to be read), a compressed
// name makes it so, so that none is read as plain text, and what cannot be read anyway is left alone.
func Packing(f io.ReaderAt, path string, never bool) compressed.Kind {
	how, n, err := compressed.KindAt(f)
	if err != nil {
		return compressed.Plain // the error comes again, and is logged, when the file is read
	}
	named := compressed.IsNamed(path)
	switch {
	case how.IsForeign() && never:
		return compressed.Unknown
	case how.IsForeign():
		return how
	case never && !named, how == compressed.Unknown && !named && n < 2:
		return compressed.Plain
	case how == compressed.Plain && never:
		return compressed.Unknown // which is not read
	}
	return how
}
