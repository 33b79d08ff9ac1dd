// Package settings promises that what is said of an input is checked once, and then says
// for every file in the same way which are read, what a record is, and what becomes of it.
// A compiled input never changes.
package settings

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

// Compiled is an input whose patterns, fields and rules are compiled. For any goroutine.
type Compiled struct {
	Input
	Spec    finder.Spec
	Shaping uint64 // a hash of what shapes a payload, see shaping

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
}

// Why records are filtered, but by rules, which tell it by their names. The words are
// the label values of the metric.
const (
	Blank     = "blank"
	Header    = "header"
	Unmatched = "unmatched"
)

// Compile checks an input and compiles its patterns, its fields and the settings that change
// records. It opens none of the files that the patterns match. The error names the input.
func Compile(in Input) (*Compiled, error) {
	x := &Compiled{Input: in, Spec: finder.Spec{Exclude: in.Exclude, Heard: in.Watch != "poll"}}
	for _, p := range in.Paths {
		pat, err := finder.NewPattern(p)
		if err != nil {
			return nil, fmt.Errorf("input %s: path %q: %w", in.Name, p, err)
		}
		x.Spec.Patterns = append(x.Spec.Patterns, pat)
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
func (in *Compiled) shape() error {
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
	in.Shaping = shaping(in)
	return nil
}

// shaping returns a hash of all settings that affect how bytes of a file become the body of a
// payload, with the bits record.Reshaped and record.Withheld.
func shaping(in *Compiled) uint64 {
	c := in.InputConfig
	text := fmt.Sprint(c.Format, c.Header, c.Validate, c.MaxRecordSize, c.Encoding, c.Parse)
	if in.fields != nil {
		text += fmt.Sprintf(" %q %q %q", in.host, in.Name, in.Fields)
	}
	if m := in.Multiline; m != nil {
		text += fmt.Sprintf(" %q %q %d", m.Start, m.Preset, m.MaxLines)
	}
	text += in.shapedBy()
	if in.Joins() {
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
func (in *Compiled) taken() format.Parse { return in.parse.Taken(in.inner) }

// Joins reports whether a record can be several lines that need not end.
func (in *Compiled) Joins() bool {
	o := in.Options()
	return o.Joins()
}

// OfLines reports whether a newline ends each record.
func (in *Compiled) OfLines() bool {
	spec, _ := format.Of(in.Format)
	return spec.Ends == format.AtLine || spec.Ends == format.AtRow
}

// Options returns the settings of the scanner. A record that would not fit into one read counts as
// too long, since its end would never be seen.
func (in *Compiled) Options() format.Options {
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

// Prepare sets the scanner up for a file: f is its content, batch the id that records get whose
// fields have the batch. If the input redacts, a file with the byte order mark of another encoding
// is an error.
func (in *Compiled) Prepare(scan *format.Scanner, f io.ReaderAt, of record.File, info *record.FileInfo, batch record.BatchID) error {
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
func (in *Compiled) checkMark(f io.ReaderAt) error {
	head := make([]byte, 3)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read byte order mark: %w", err)
	}
	return in.ForeignMark(head[:n])
}

// ForeignMark returns a *MarkError if the bytes begin with the byte order mark of another
// encoding than the input's, else nil.
func (in *Compiled) ForeignMark(head []byte) error {
	if e, ok := format.Mark(head); ok && e != in.encoding {
		return &MarkError{e}
	}
	return nil
}

// MarkError says that a file that is to be redacted has another encoding than its input.
type MarkError struct{ Is format.Encoding }

func (e *MarkError) Error() string {
	return fmt.Sprintf("its byte order mark says %v, and the rules of the input would find nothing to redact or remove in it", e.Is)
}

// Fix says what a person can do about it.
func (e *MarkError) Fix() string {
	return "set encoding: " + e.Is.String() + ", in an input of its own if others of its files have another"
}

// WholeUnits returns the length of text without an incomplete character at its end: half a
// unit of UTF-16, the first half of a surrogate pair, or the first bytes of a UTF-8
// sequence.
func (in *Compiled) WholeUnits(text []byte) int {
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
	case in.encoding == format.UTF8 && in.OfLines():
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

// Reads reports whether the patterns of the input cover a path.
func (in *Compiled) Reads(path string) bool { return in.Spec.Matches(path) }

// Redacts reports whether the bytes of a record may be kept only as the rules leave them.
func (in *Compiled) Redacts() bool { return in.rules.Withholds() }

// Reasons are the names of the rules that leave records out, and Changes of those that change them,
// by the indexes that a format.Chunk has.
func (in *Compiled) Reasons() []string { return in.rules.Reasons() }

// Changes see Reasons.
func (in *Compiled) Changes() []string { return in.rules.Changes() }

// HasBatch reports whether the id of the batch is in a field of every record.
func (in *Compiled) HasBatch() bool { return in.fields.HasBatch() }

// HasEvents reports whether lines are joined by multiline.
func (in *Compiled) HasEvents() bool { return in.events != nil }

// Coding is the encoding of the files.
func (in *Compiled) Coding() format.Encoding { return in.encoding }

// IsShaped reports whether the input still sends to the route of a payload, and shapes records as
// when that was made.
func (in *Compiled) IsShaped(p *record.Payload) bool {
	return in.Route == p.Route && in.Shaping == p.Shaping
}

// Lot is one record that is not sent, with its bytes in the file.
func (in *Compiled) Lot(bytes int64) record.Lot {
	return record.Lot{Input: in.Name, Route: in.Route, Records: 1, Bytes: bytes}
}

// TextLen returns the length of data without NUL bytes at its end, if these are no content (in Avro
// they are). at is the offset of data in its file.
func (in *Compiled) TextLen(data []byte, at int64) int {
	if in.Format == record.Avro || len(data) == 0 || data[len(data)-1] != 0 {
		return len(data)
	}
	return format.TextLen(data, at, in.encoding)
}

// Carries reports whether a message may be in two files.
func (in *Compiled) Carries() bool {
	return in.parse.Container() && in.encoding == format.UTF8
}

// KeptHead is how much of a record that is too long quarantine keeps, in bytes.
const KeptHead = 64 << 10

// Rejected returns the record j for quarantine. info is what is known of its file f, and base the
// offset of the scanned text in it. Of a record that is too long only the beginning is kept. The bytes
// are those of j.
func (in *Compiled) Rejected(f record.File, info *record.FileInfo, base int64, j format.Reject) record.Rejected {
	if j.Reason == record.TooLong {
		j.Data = j.Data[:min(len(j.Data), KeptHead)]
	}
	return record.Rejected{
		File: f, Path: info.First, Dated: info.Dated, Route: in.Route,
		Offset: base + int64(j.Start), Length: int64(j.End - j.Start),
		Data: j.Data, Truncated: len(j.Data) < j.End-j.Start,
		Reason: j.Reason, Message: j.Message,
	}
}
