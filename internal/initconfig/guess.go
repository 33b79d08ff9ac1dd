package initconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/format"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/schema"
	"kusto-agent/internal/units"
)

// look reads the beginning of the sample file and keeps in c.guess what it shows of the format and
// the ways to parse it. Its errors have exit codes.
func (c *Answers) look() error {
	if info, err := os.Stat(c.Sample); err == nil && info.IsDir() {
		return exit.Usagef("%q is a folder; name a file in it as the sample, or give --path", c.Sample)
	}
	text, err := beginningOf(c.Sample)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Usagef("read the sample: %w; name a file that is there, or give --path", err)
	case err != nil:
		return exit.With(exit.Failed, fmt.Errorf("read the sample: %w", err))
	}
	c.guess = schema.Look(filepath.Base(c.Sample), text)
	return nil
}

// beginningOf returns the first 256 KiB of a file, decompressed if it is gzip or zstd. If the file
// breaks off or is damaged later, that is no error.
func beginningOf(name string) ([]byte, error) {
	const most = 256 << 10
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	from, done, err := compressed.Reader(f)
	if err != nil {
		return nil, err
	}
	defer done()
	text, err := io.ReadAll(io.LimitReader(from, most))
	if len(text) > 0 {
		err = nil // the part before the damage is enough
	}
	return text, err
}

// pattern returns the pattern for paths to propose, which matches the sample and what rotation made
// of it, and no other log: all files in the folder of the sample with its extension, unless one of
// them has another name; then those whose names differ from that of the sample only in a date or
// number, or the sample alone. It is "" without a sample.
func (c *Answers) pattern() string {
	if c.Sample == "" {
		return ""
	}
	path := config.Absolute(c.Sample)
	bare := compressed.Bare(path)
	end := filepath.Ext(bare) + strings.TrimPrefix(path, bare)
	if filepath.Ext(bare) == "" {
		return config.EscapePattern(path)
	}
	folder := config.EscapePattern(filepath.Dir(path))
	all := folder + "/*" + config.EscapePattern(end)
	own := stem(path, end)
	isOther := func(file string) bool { return stem(file, end) != own }
	switch {
	case !slices.ContainsFunc(matching(all), isOther):
		return all
	case own != strings.TrimSuffix(filepath.Base(path), end): // its own name has a date or a number
		name := strings.TrimSuffix(filepath.Base(path), end)
		at := strings.IndexAny(name[len(own):], "0123456789")
		return folder + "/" + config.EscapePattern(name[:len(own)+at]) + "[0-9]*" + config.EscapePattern(end)
	}
	return config.EscapePattern(path)
}

// stem returns the name of a file without its extension, which is end, and without dates and numbers
// that rotation adds.
func stem(path, end string) string {
	return ofRotation.ReplaceAllString(strings.TrimSuffix(filepath.Base(path), end), "")
}

// matches returns a sentence on how many files c.Path matches now; "" for a pattern with **, which can
// be one over a whole disk.
func (c *Answers) matches() string {
	if strings.Contains(c.Path, "**") {
		return ""
	}
	n := len(matching(c.Path))
	if info, err := os.Stat(c.Path); n == 0 && err == nil && !info.IsDir() { // a path that is there as it is written
		n = 1
	}
	if n == 0 {
		return fmt.Sprintf("%q matches no file yet", c.Path)
	}
	return fmt.Sprintf("%q matches %s now", c.Path, units.Counted(n, "file"))
}

// matching returns the files that a pattern matches. What cannot be read is left out.
func matching(pattern string) []string {
	files, _ := doublestar.FilepathGlob(pattern, doublestar.WithFilesOnly()) // fails for a pattern that is none
	return files
}

// likelyFormat returns the format to propose: that of the content of the sample, or else of the
// extension in the pattern; "" if neither is known.
func (c *Answers) likelyFormat() string {
	if c.guess.Format != "" {
		return string(c.guess.Format)
	}
	if f, ok := format.ByExtension(filepath.Ext(compressed.Bare(c.Path))); ok {
		return string(f)
	}
	return ""
}

// needsMapping reports whether the service accepts records of the format only with a mapping.
func (c *Answers) needsMapping() bool {
	f, _ := format.Lookup(cmp.Or(c.Format, string(c.guess.Format)))
	spec, _ := format.Of(f)
	return spec.NeedsMap
}

// likelyMapping returns the name of the mapping to propose, made of the table and the kind of
// mapping, such as "App_json"; "" if the format needs none or the table is not known.
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

// likelyTable returns the table name to propose: the name of the sample file, or of the pattern,
// without extensions and without numbers and dates that rotation adds, with a capital first letter.
// If the pattern has wildcards in its name, its folder gives the name. "" means that no valid name
// results.
func (c *Answers) likelyTable() string {
	name := ""
	if c.Sample != "" {
		name = filepath.Base(compressed.Bare(c.Sample))
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
