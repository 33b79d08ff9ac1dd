package initconfig

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/format"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/schema"
)

// look infers what it can from the sample file.
func (c *Answers) look() error {
	text, err := beginningOf(c.Sample)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.With(exit.Usage, fmt.Errorf("read the sample: %w", err))
	case err != nil:
		return exit.With(exit.Failed, fmt.Errorf("read the sample: %w", err))
	}
	c.guess = schema.Look(filepath.Base(c.Sample), text)
	return nil
}

// beginningOf is the first of what a file holds, unpacked.
func beginningOf(name string) ([]byte, error) {
	const most = 256 << 10
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	start, _ := r.Peek(4)
	var from io.Reader = r
	switch {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		if from, err = gzip.NewReader(r); err != nil {
			return nil, err
		}
	case bytes.Equal(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		from = z
	}
	text, err := io.ReadAll(io.LimitReader(from, most))
	if len(text) > 0 {
		err = nil // what breaks off later has a beginning
	}
	return text, err
}

// pattern returns a pattern for the files beside the sample that have the same extension; without
// an extension, the path of the sample itself.
func (c *Answers) pattern() string {
	if c.Sample == "" {
		return ""
	}
	path := config.Absolute(c.Sample)
	bare := schema.Bare(path)
	if filepath.Ext(bare) == "" {
		return config.EscapePattern(path)
	}
	return config.EscapePattern(filepath.Dir(path)) + "/*" + config.EscapePattern(filepath.Ext(bare)+strings.TrimPrefix(path, bare))
}

// likelyFormat proposes a format, from the content of the sample or the name.
func (c *Answers) likelyFormat() string {
	if c.guess.Format != "" {
		return string(c.guess.Format)
	}
	if f, ok := format.ByExtension(filepath.Ext(schema.Bare(c.Path))); ok {
		return string(f)
	}
	return ""
}

func (c *Answers) needsMapping() bool {
	f, _ := format.Lookup(cmp.Or(c.Format, string(c.guess.Format)))
	spec, _ := format.Of(f)
	return spec.NeedsMap
}

// likelyMapping proposes a name for the mapping, if the format needs one.
func (c *Answers) likelyMapping() string {
	f, _ := format.Lookup(c.Format)
	spec, _ := format.Of(f)
	if !spec.NeedsMap || c.Table == "" {
		return ""
	}
	return c.Table + "_" + strings.ToLower(spec.Mapping)
}

// ofRotation is what rotation puts behind the name of a file: dates and numbers.
var ofRotation = regexp.MustCompile(`[-_.]*[0-9][-_.0-9T:]*$`)

// likelyTable returns a table name made of the name of the sample or of its folder, without
// numbers and dates that rotation adds; empty if none can be made.
func (c *Answers) likelyTable() string {
	name := ""
	if c.Sample != "" {
		name = filepath.Base(schema.Bare(c.Sample))
	} else if name = filepath.Base(c.Path); strings.ContainsAny(name, "*?[{") {
		name = filepath.Base(filepath.Dir(c.Path))
	}
	for filepath.Ext(name) != "" && filepath.Ext(name) != name {
		name = strings.TrimSuffix(name, filepath.Ext(name))
	}
	name = strings.Trim(schema.Legal(ofRotation.ReplaceAllString(name, "")), " ._-")
	first, n := utf8.DecodeRuneInString(name)
	if name == "" || kusto.ValidName("table", name) != nil {
		return ""
	}
	return string(unicode.ToUpper(first)) + name[n:]
}
