package tail

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/cespare/xxhash/v2"

	"kusto-agent/internal/format"
	"kusto-agent/internal/index"
	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
	"kusto-agent/tail/internal/finder"
)

// Input is one input, ready to be read.
type Input struct {
	InputConfig
	Route      record.Route
	MaxSize    int           // bytes of a payload before gzip
	MaxRecords int           // of a payload; 0: no limit
	MaxWait    time.Duration // a record waits so long for others in its payload at most
}

// input is an Input at work. Its settings do not change: when they are to be
// others, another input takes over its files.
type input struct {
	Input
	*files
	next     *input // that has taken over; guarded by Tailer.mu
	spec     finder.Spec
	fields   *format.Fields // added to every record; nil: none
	encoding format.Encoding
	parse    format.Parse
	inner    format.Parse // of the messages of container logs; ParseNone: the lines are none
	onError  format.OnError
	pattern  *format.Pattern   // of parse: regex
	zone     *time.Location    // of parse: syslog
	events   *format.Multiline // nil: every line is a record
	rules    *rules.Set        // nil: every record is sent
	host     string            // what {host} in them stands for
	shaping  uint64
}

// files is what an input knows of its files. It belongs to the goroutine that
// discovers, and what Tailer.mu guards is guarded by it.
type files struct {
	name string // of the input

	isNew    bool // no earlier run has seen it, and its files are looked for the first time
	noted    bool // the journal knows that it was seen
	unsought bool // files that were renamed in its absence are to be looked for

	known   *index.Index[record.File, known] // every generation that is remembered
	byNode  nodes
	readers *index.Index[node, reader]
	unnamed map[record.FileID][]*known // generations whose file is not known, see claim; guarded by Tailer.mu
	streams map[string]*stream         // of container logs, by where their files are written
	heads   heads
	suspect map[node]suspicion
	renewed map[node]*reader // in this scan, see copiedUp; nil: not looked for

	folders folders

	packed map[node]*packed // compressed files that are not being read
	behind map[node]string  // compressed files that no pattern matches and that were rotated after a file that was read; guarded by Tailer.mu

	again     []string  // paths that no pattern matches and that have to be asked about again
	truncated []*known  // whose copies are to be looked for
	lost      []*known  // gone before they were read to their end; guarded by Tailer.mu
	rotated   []rotated // beside which others may be
	matched   time.Time // when a path matched last
}

// newFiles returns the state of an input of that name that has no files yet.
func newFiles(name string) *files {
	return &files{
		name: name,

		unsought: true,
		known:    newKnowns(),
		byNode:   newNodes(),
		readers:  newReaders(),
		unnamed:  make(map[record.FileID][]*known),
		streams:  make(map[string]*stream),
		heads:    newHeads(),
		suspect:  make(map[node]suspicion),
		packed:   make(map[node]*packed),
		behind:   make(map[node]string),
	}
}

// newInput checks an input and compiles its patterns, its fields and the settings that change
// records. It opens none of the files that the patterns match.
func newInput(in Input) (*input, error) {
	x := &input{Input: in, files: newFiles(in.Name), spec: finder.Spec{Exclude: in.Exclude, Heard: in.Watch != "poll"}}
	for _, p := range in.Paths {
		pat, err := finder.NewPattern(p)
		if err != nil {
			return nil, fmt.Errorf("input %s: path %q: %w", in.Name, p, err)
		}
		x.spec.Patterns = append(x.spec.Patterns, pat)
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
	if err := x.shape(); err != nil {
		return nil, fmt.Errorf("input %s: %w", in.Name, err)
	}
	for _, p := range in.Exclude {
		if !doublestar.ValidatePathPattern(p) {
			return nil, fmt.Errorf("input %s: exclude %q: not a valid pattern", in.Name, p)
		}
	}
	return x, nil
}

// shape resolves the settings of the input that change records: encoding, parse, pattern, multiline
// and rules. A setting that is empty has its default. The error names the first setting that is not
// valid.
func (in *input) shape() error {
	known, ok := true, true
	if in.Encoding != "" {
		in.encoding, ok = format.EncodingOf(in.Encoding)
	}
	if in.Parse != "" {
		in.parse, known = format.ParseOf(in.Parse)
	}
	if !ok || !known {
		return fmt.Errorf("encoding %q, parse %q: not known", in.Encoding, in.Parse)
	}
	if in.parse.Container() {
		if in.inner, ok = format.InnerOf(cmp.Or(in.Inner, "text")); !ok {
			return fmt.Errorf("inner %q: not known", in.Inner)
		}
	}
	if in.taken().Parsed() {
		if in.onError, ok = format.OnErrorOf(cmp.Or(in.OnError, "raw")); !ok {
			return fmt.Errorf("on_error %q: not known", in.OnError)
		}
	}
	var err error
	if in.taken() == format.ParseSyslog {
		if in.zone, err = in.ZoneOfTimes(); err != nil {
			return err
		}
	}
	if in.taken() == format.ParseRegex {
		if in.pattern, err = in.NewPattern(); err != nil {
			return fmt.Errorf("pattern: %w", err)
		}
	}
	if m := in.Multiline; m != nil {
		if in.events, err = format.NewMultiline(m.Start, m.Preset, m.MaxLines); err != nil {
			return fmt.Errorf("multiline: %w", err)
		}
	}
	if in.rules, err = in.NewRules(); err != nil {
		return err
	}
	in.shaping = shaping(in)
	return nil
}

// shaping returns a hash of all settings that affect how bytes of a file become the body of a
// payload, with the bits record.Reshaped and record.Withheld.
func shaping(in *input) uint64 {
	c := in.InputConfig
	text := fmt.Sprint(c.Format, c.Header, c.Validate, c.MaxRecordSize, c.Encoding, c.Parse)
	if in.fields != nil {
		text += fmt.Sprintf(" %q %q %q", in.host, in.Name, in.Fields)
	}
	if m := in.Multiline; m != nil {
		text += fmt.Sprintf(" %q %q %d", m.Start, m.Preset, m.MaxLines)
	}
	text += in.shapedBy()
	if in.joins() {
		text += fmt.Sprint(" ", in.MaxSize) // it also limits a record of several lines
	}
	sum := xxhash.Sum64String(text) &^ (record.Reshaped | record.Withheld)
	if in.parse != format.ParseNone || in.encoding != format.UTF8 || in.rules.Changing() {
		sum |= record.Reshaped
	}
	if in.rules.Withholds() {
		sum |= record.Withheld
	}
	return sum
}

// taken is the way that text is taken apart.
func (in *input) taken() format.Parse { return in.parse.Taken(in.inner) }

// joins reports whether a record can be several lines that need not end.
func (in *input) joins() bool {
	o := in.options()
	return o.Joins()
}

// isQuiet reports whether the last, incomplete record of a file is no longer waited for
// although the file may grow: an event of several lines is complete after max_wait, and a
// message of a container log after rotate_quiet, because it delays the other stream.
func (r *reader) isQuiet() bool {
	switch {
	case r.in.events != nil:
		return r.grown.ago() >= r.in.Multiline.MaxWait.D()
	case r.in.joins():
		return !r.held.IsZero() && time.Since(r.held) >= r.in.RotateQuiet.D()
	}
	return false
}

// onceNamed reports whether no pattern matches a file where it was last seen, though
// one did before it was moved there.
func (in *input) onceNamed(info record.FileInfo) bool {
	return !in.reads(info.Path) && (in.reads(info.First) || in.reads(homeOf(info.First)))
}

// ofLines reports whether a newline ends each record.
func (in *input) ofLines() bool {
	spec, _ := format.Of(in.Format)
	return spec.Ends == format.AtLine || spec.Ends == format.AtRow
}

// options returns the settings of the scanner. A record that would not fit into one read counts as
// too long, since its end would never be seen.
func (in *input) options() format.Options {
	o := format.Options{
		Format:     in.Format,
		Validate:   in.Validate == "record",
		MaxBody:    in.MaxSize,
		Fields:     in.fields,
		SkipHeader: in.Header == "skip",
		Encoding:   in.encoding,
		Parse:      in.parse,
		Inner:      in.inner,
		OnError:    in.onError,
		Pattern:    in.pattern,
		Zone:       in.zone,
		Multiline:  in.events,
		Rules:      in.rules,
	}
	o.MaxRecord = o.Room(in.MaxSize) // the longest record that a read of MaxSize bytes always has whole
	if spec, _ := format.Of(in.Format); spec.Ends != format.InBlocks {
		const lineEnd = 2 // CR LF
		o.MaxContent = int(in.MaxRecordSize)
		o.MaxRecord = min(o.MaxContent+lineEnd, o.MaxRecord)
	}
	o.MaxHeader = o.MaxRecord
	return o
}

// prepare sets the scanner up for a file: f is its content, batch the id that records get whose
// fields have the batch. If the input redacts, a file with the byte order mark of another encoding
// is an error.
func (in *input) prepare(scan *format.Scanner, f io.ReaderAt, of record.File, info *record.FileInfo, batch record.BatchID) error {
	if in.rules.Withholds() {
		if err := in.checkMark(f); err != nil {
			return err
		}
	}
	scan.SetStamp(format.Stamp{Host: in.host, Path: info.First, Input: in.Name, File: of.ID, Generation: of.Generation, Dated: dated(info), Batch: batch})
	return scan.Prepare(f)
}

// checkMark returns an error for a file whose byte order mark names another encoding than
// the input's, because rules would find nothing in it.
func (in *input) checkMark(f io.ReaderAt) error {
	head := make([]byte, 3)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read byte order mark: %w", err)
	}
	return in.foreignMark(head[:n])
}

// foreignMark returns a *problem if the bytes begin with the byte order mark of another
// encoding than the input's, else nil.
func (in *input) foreignMark(head []byte) error {
	e, ok := format.Mark(head)
	if !ok || e == in.encoding {
		return nil
	}
	return &problem{
		error: fmt.Errorf("its byte order mark says %v, and the rules of the input would find nothing to redact or remove in it", e),
		fix:   "set encoding: " + e.String() + ", in an input of its own if others of its files have another", file: true,
	}
}

func (in *input) file(id record.FileID, generation uint32) record.File {
	return record.File{Input: in.Name, ID: id, Generation: generation}
}

// wholeUnits returns the length of text without an incomplete character at its end: half a
// unit of UTF-16, the first half of a surrogate pair, or the first bytes of a UTF-8
// sequence.
func (in *input) wholeUnits(text []byte) int {
	n := len(text)
	switch {
	case in.encoding == format.UTF16LE || in.encoding == format.UTF16BE:
		n &^= 1
		high := 1 // where the higher byte of a unit is
		if in.encoding == format.UTF16BE {
			high = 0
		}
		if n > 0 && text[n-2+high]&0xFC == 0xD8 {
			n -= 2
		}
	case in.encoding == format.UTF8 && in.ofLines():
		for back := 1; back < utf8.UTFMax && back <= n; back++ {
			if b := text[n-back]; utf8.RuneStart(b) {
				if !utf8.FullRune(text[n-back:]) {
					n -= back
				}
				break
			}
		}
	}
	return n
}
