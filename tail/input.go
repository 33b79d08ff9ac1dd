package tail

import (
	"errors"
	"fmt"
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
		shaping: shaping(in.InputConfig),
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

// shaping is a hash of the settings that turn bytes of a file into a body.
func shaping(c InputConfig) uint64 {
	return xxhash.Sum64String(fmt.Sprint(c.Format, c.Header, c.Validate, c.MaxRecordSize, c.Encoding, c.Parse))
}

// scanner makes the framer of this input; it is for one goroutine. A record
// that fills a whole read is too long, or its end would never be seen.
func (in *input) scanner() (*format.Scanner, error) {
	return format.New(format.Options{
		Format:     in.Format,
		Validate:   in.Validate == "record",
		MaxRecord:  min(int(in.MaxRecordSize), in.MaxSize-2),
		SkipHeader: in.Header == "skip",
	})
}

func (in *input) file(id record.FileID, generation uint32) record.File {
	return record.File{Input: in.Name, ID: id, Generation: generation}
}
