package tail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/cespare/xxhash/v2"

	"kusto-agent/format"
	"kusto-agent/record"
)

// Input is one input, ready to be read.
type Input struct {
	InputConfig
	Route      record.Route
	MaxSize    int // bytes of a payload before gzip
	MaxRecords int // of a payload; 0: no limit
}

// input is an Input at work. Its maps belong to the goroutine that discovers.
type input struct {
	Input
	patterns []pattern
	fields   *format.Fields // added to every record; nil: none
	host     string         // what {host} in them stands for
	shaping  uint64
	isNew    bool // no earlier run has seen it

	known   map[record.File]*known // every generation that is remembered
	byNode  map[node]*known        // the latest generation of a file that is there
	readers map[node]*reader
	heads   headIndex
	suspect map[node]suspicion

	truncated []*known // whose copies are to be looked for
}

// pattern is a glob, cut into the names of its folders.
type pattern struct {
	base  string // the folder to start from
	parts []string
}

func newInput(in Input) (*input, error) {
	x := &input{
		Input:   in,
		known:   make(map[record.File]*known),
		byNode:  make(map[node]*known),
		readers: make(map[node]*reader),
		heads:   make(headIndex),
		suspect: make(map[node]suspicion),
	}
	for _, p := range in.Paths {
		pat, err := newPattern(p)
		if err != nil {
			return nil, fmt.Errorf("input %s: path %q: %w", in.Name, p, err)
		}
		x.patterns = append(x.patterns, pat)
	}
	if len(in.Fields) > 0 {
		var err error
		if x.fields, err = format.NewFields(in.Fields); err != nil {
			return nil, fmt.Errorf("input %s: fields: %w", in.Name, err)
		}
		if x.host, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("input %s: ask for the name of this host: %w", in.Name, err)
		}
	}
	x.shaping = shaping(x)
	for _, p := range in.Exclude {
		if !doublestar.ValidatePathPattern(p) {
			return nil, fmt.Errorf("input %s: exclude %q: not a valid pattern", in.Name, p)
		}
	}
	return x, nil
}

func newPattern(p string) (pattern, error) {
	if !doublestar.ValidatePathPattern(p) {
		return pattern{}, errors.New("not a valid pattern")
	}
	abs, err := filepath.Abs(p)
	if err != nil {
		return pattern{}, err
	}
	depth := 0
	for _, c := range abs {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == '/' && depth > 0:
			return pattern{}, errors.New("a slash between braces is not supported; write the paths out")
		}
	}
	base, rest := doublestar.SplitPattern(abs)
	return pattern{base: filepath.Clean(base), parts: strings.Split(rest, "/")}, nil
}

// shaping is a hash of what turns the bytes of a file into a body.
func shaping(in *input) uint64 {
	c := in.InputConfig
	text := fmt.Sprint(c.Format, c.Header, c.Validate, c.MaxRecordSize, c.Encoding, c.Parse)
	if in.fields != nil {
		text += fmt.Sprintf(" %q %q %q", in.host, in.Name, in.Fields)
	}
	return xxhash.Sum64String(text)
}

// ofLines reports whether a newline ends each record.
func (in *input) ofLines() bool {
	spec, _ := format.Of(in.Format)
	return spec.Ends == format.AtLine || spec.Ends == format.AtRow
}

// scanner makes the framer of this input; it is for one goroutine. A record
// that fills a whole read is too long, or its end would never be seen. Of Avro,
// whose records nobody sees, a block may be as large as fits.
func (in *input) scanner() (*format.Scanner, error) {
	most := in.MaxSize - 2
	if spec, _ := format.Of(in.Format); spec.Ends != format.InBlocks {
		most = min(int(in.MaxRecordSize), most)
	}
	return format.New(format.Options{
		Format:     in.Format,
		Validate:   in.Validate == "record",
		MaxRecord:  most,
		MaxBody:    in.MaxSize,
		Fields:     in.fields,
		SkipHeader: in.Header == "skip",
	})
}

// prepare has a scanner know what is to be scanned next: a file, the path where
// it was first seen, and the batch it is for.
func (in *input) prepare(scan *format.Scanner, f *os.File, of record.File, first string, batch record.BatchID) error {
	scan.SetStamp(format.Stamp{Host: in.host, Path: first, Input: in.Name, File: of.ID, Generation: of.Generation, Batch: batch})
	return scan.Prepare(f)
}

func (in *input) file(id record.FileID, generation uint32) record.File {
	return record.File{Input: in.Name, ID: id, Generation: generation}
}
