package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/config"
	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// Trial reads a file as an input would, record by record, and tells what becomes of each.
// Nothing is sent or written, and what the agent has read before plays no part.
type Trial struct {
	Counts Counts

	each  func(*Tried) error
	plain *format.Scanner // finds records
	found format.Chunk
	shape *format.Scanner   // makes of them what is sent
	also  []*format.Scanner // others that have to know the beginning of the file
	made  format.Chunk
	names []string // of the reasons
	edits []string // of the rules that change records
	work  []byte   // scanning changes it
	one   []byte
	size  int // of the first window
}

// Counts are those of a file. Read is the sum of Sent, Filtered and Quarantined.
type Counts struct {
	Read        int            `json:"read"`
	Sent        int            `json:"sent"`
	Unchanged   int            `json:"unchanged"` // of those sent: they are in the body as in the file
	Unparsed    int            `json:"unparsed"`  // of those sent: not as parse or inner says
	Changed     map[string]int `json:"changed"`   // of those sent, by the rule; each is there
	Filtered    map[string]int `json:"filtered"`  // by the reason; each rule is there
	Quarantined map[string]int `json:"quarantined"`
	BytesRead   int64          `json:"bytes_read"` // of the file, unpacked
	BytesSent   int64          `json:"bytes_sent"` // before gzip
}

// Tried is what became of a record, or of several that are read together. Its bytes are
// valid until the call with it is over.
type Tried struct {
	Start, End int64    // in the file, unpacked
	Before     []byte   // as it is there, without its line end
	After      [][]byte // as they are sent, without theirs
	LeftOut    []string // why others of them are not
	Reason     record.Reason
	Message    string   // why it goes to quarantine; empty: it does not
	ChangedBy  []string // rules that changed what is sent
	Unparsed   bool     // what is sent tells that it is not as parse or inner says

	source []byte // of Before, with its line end
}

// Unchanged reports whether it is sent as it is.
func (t *Tried) Unchanged() bool { return len(t.After) == 1 && bytes.Equal(t.After[0], t.Before) }

// NewTrial returns a trial that calls each with every record of a file, which is read as the
// input in would read it. If each returns an error, the trial ends. It fails for Avro, whose
// records cannot be told apart.
func NewTrial(in *config.Input, file string, each func(*Tried) error) (*Trial, error) {
	o, err := in.Tail().ScanOptions()
	if err != nil {
		return nil, err
	}
	if spec, _ := format.Of(o.Format); spec.Ends == format.InBlocks {
		return nil, fmt.Errorf("format %s is read in blocks: nobody sees its records", o.Format)
	}
	t := &Trial{each: each, size: 1 << 20, Counts: Counts{Changed: map[string]int{}, Filtered: map[string]int{}, Quarantined: map[string]int{}}}
	if o.Rules != nil {
		t.names = o.Rules.Reasons()
		for _, name := range t.names {
			t.Counts.Filtered[name] = 0
		}
		t.edits = o.Rules.Changes()
		for _, name := range t.edits {
			t.Counts.Changed[name] = 0
		}
	}
	stamp := format.Stamp{Path: config.Absolute(file), Input: in.Name, Dated: time.Now().UnixNano()}
	if st, err := os.Stat(file); err == nil {
		stamp.Dated = st.ModTime().UnixNano()
	}
	if stamp.Host, err = os.Hostname(); err != nil {
		return nil, err
	}
	if t.shape, err = format.New(o); err != nil {
		return nil, err
	}
	// The second scanner only finds records, without rules and fields; Wary makes it end broken ones
	// at the same place.
	o.Wary = o.Rules.Members()
	o.Rules, o.Fields, o.OnError = nil, nil, format.SendRaw
	if t.plain, err = format.New(o); err != nil {
		return nil, err
	}
	t.shape.SetStamp(stamp)
	t.plain.SetStamp(stamp)
	return t, nil
}

// ErrEnough ends a trial early, without an error.
var ErrEnough = errors.New("enough was seen")

// mostTried is the longest record of a file that is tried, of those that are too long to
// be sent.
const mostTried = 256 << 20

// Run reads a file, which may be compressed with gzip or zstd, and tries its records. It returns
// the error that ended the trial; ErrEnough counts as none.
func (t *Trial) Run(ctx context.Context, file io.Reader) error {
	r, closing, err := compressed.Reader(file)
	if err != nil {
		return err
	}
	defer closing()
	err = t.read(ctx, r)
	if errors.Is(err, ErrEnough) {
		return nil
	}
	return err
}

// read reads the file in windows of t.size bytes and tries the records in them. A window grows as
// long as it does not have a whole record, up to mostTried bytes.
func (t *Trial) read(ctx context.Context, r io.Reader) error {
	var window []byte
	base, size := int64(0), t.size
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		window = slices.Grow(window, size-len(window)+1)
		n, err := io.ReadFull(r, window[len(window):size])
		window = window[:len(window)+n]
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if base == 0 {
			if err := t.prepare(window); err != nil {
				return err
			}
		}
		n, err = t.window(window, base, last)
		if err != nil || last {
			return err
		}
		if n == 0 { // no whole record
			if size *= 2; size > mostTried {
				return fmt.Errorf("a record at offset %d is longer than %d bytes", base, mostTried)
			}
			continue
		}
		base += int64(n)
		window = window[:copy(window, window[n:])]
	}
}

// prepare shows the beginning of the file to the scanners, which may need the header that is
// there.
func (t *Trial) prepare(beginning []byte) error {
	for _, scan := range append(t.also, t.shape) {
		if err := scan.Prepare(bytes.NewReader(beginning)); err != nil {
			return err
		}
	}
	return nil
}

// window tries the records in src, a stretch of the file that begins at offset at, and returns
// how many bytes of src are done. last says that nothing follows src.
func (t *Trial) window(src []byte, at int64, last bool) (done int, err error) {
	work := append(slices.Grow(t.work[:0], len(src)+1), src...) // Scan changes its data
	t.work = nil                                                // long calls window again while work is in use
	defer func() { t.work = work }()
	c := &t.found
	for done < len(src) {
		t.plain.Scan(work[done:], at+int64(done), last, 1, c)
		if err := t.step(src[done:], at+int64(done), c); err != nil {
			return done, err
		}
		done += c.Consumed
		switch {
		case c.Long:
			n, err := t.long(src, work, at, done, last)
			if n == 0 || err != nil {
				return done, err
			}
			done += n
		case c.Consumed == 0:
			return done, nil
		}
	}
	return done, nil
}

// long skips a record that is too long, reports it, and returns the number of bytes it skipped;
// 0: the record does not end in this window. src is the window, which begins at offset at of the
// file; work is the copy of it that was scanned; the record begins at index from. Lines of other
// streams between the parts of a container message are tried as usual.
func (t *Trial) long(src, work []byte, at int64, from int, last bool) (int, error) {
	c := t.found
	one := Tried{Start: at + int64(from), Reason: c.Reason, Message: c.Message}
	behind := from + c.Skip
	if !c.Parts {
		n, done := t.plain.SkipLong(work[behind:], c.Indent, last)
		if !done {
			return 0, nil
		}
		one.End, one.Before = at+int64(behind+n), src[from:behind+n]
		return c.Skip + n, t.tell(&one, 0)
	}
	own, n, done := t.plain.SkipParts(work[behind:], c.Stream, last)
	if !done {
		return 0, nil
	}
	own = slices.Clone(own)
	one.End, one.Before = at+int64(behind), src[from:behind]
	if err := t.tell(&one, 0); err != nil {
		return 0, err
	}
	next := 0
	for _, p := range append(own, format.Piece{Start: n, End: n}) {
		if _, err := t.window(src[behind+next:behind+p.Start], at+int64(behind+next), true); err != nil {
			return 0, err
		}
		t.Counts.BytesRead += int64(p.End - p.Start)
		next = p.End
	}
	return c.Skip + n, nil
}

// step handles what one scan has found: it reports the rejected records, counts blank lines and
// headers, and tries the records that are sound. src is the data as it was before the scan, which
// begins at offset at of the file.
func (t *Trial) step(src []byte, at int64, c *format.Chunk) error {
	told := 0 // bytes that tell counts
	for _, r := range c.Rejected {
		one := Tried{Start: at + int64(r.Start), End: at + int64(r.End), Before: src[r.Start:r.End], Reason: r.Reason, Message: r.Message}
		told += r.End - r.Start
		if err := t.tell(&one, 0); err != nil {
			return err
		}
	}
	for reason, n := range map[string]int{"blank": c.Blank, "header": c.Header} {
		if n > 0 {
			t.Counts.Read += n
			t.Counts.Filtered[reason] += n
		}
	}
	for _, p := range c.Pieces {
		told += p.End - p.Start
		if err := t.record(src[p.Start:p.End], at+int64(p.Start)); err != nil {
			return err
		}
	}
	t.Counts.BytesRead += int64(c.Consumed - told)
	return nil
}

// record runs one record, which begins at offset at of the file, through filters, changes,
// parsing and fields of the input, and reports with tell what came of it: what is sent, or why it
// is filtered or rejected.
func (t *Trial) record(rec []byte, at int64) error {
	one := Tried{Start: at, End: at + int64(len(rec)), Before: rec, source: rec}
	t.one = append(slices.Grow(t.one[:0], len(rec)+1), rec...)
	sent := 0
	for from := 0; from < len(t.one); from += t.made.Consumed { // lines of a container log may be divided
		c := &t.made
		t.shape.Scan(t.one[from:], at+int64(from), true, 0, c)
		if c.Consumed == 0 {
			return fmt.Errorf("the record at offset %d comes to no end", at)
		}
		for i, n := range c.Filtered {
			one.LeftOut = append(one.LeftOut, slices.Repeat([]string{t.names[i]}, n)...)
		}
		one.LeftOut = append(one.LeftOut, slices.Repeat([]string{"unmatched"}, c.Unmatched)...)
		for i, n := range c.Changed {
			one.ChangedBy = append(one.ChangedBy, slices.Repeat([]string{t.edits[i]}, n)...)
		}
		for _, r := range c.Rejected {
			one.Reason, one.Message = r.Reason, r.Message
		}
		one.Unparsed = one.Unparsed || c.Misfits > 0
		t.Counts.Unparsed += c.Misfits
		sent += len(c.Body)
		switch {
		case c.Records == 1:
			one.After = append(one.After, bytes.Clone(format.RecordText(c.Body)))
		default: // several messages of a container log, each on a line of its own
			for line := range bytes.Lines(c.Body) {
				one.After = append(one.After, bytes.Clone(format.RecordText(line)))
			}
		}
	}
	return t.tell(&one, sent)
}

// tell adds a record, or several that are read together, to the counts and passes it to the
// function each of the caller. sent is how many bytes of it are sent.
func (t *Trial) tell(one *Tried, sent int) error {
	n := &t.Counts
	n.BytesRead += one.End - one.Start
	n.BytesSent += int64(sent)
	n.Sent += len(one.After)
	n.Read += len(one.After) + len(one.LeftOut)
	for _, reason := range one.LeftOut {
		n.Filtered[reason]++
	}
	for _, rule := range one.ChangedBy {
		n.Changed[rule]++
	}
	if one.Message != "" {
		n.Read++
		n.Quarantined[string(one.Reason)]++
	}
	if one.Before = format.RecordText(one.Before); one.Unchanged() {
		n.Unchanged++
	}
	return t.each(one)
}

// mostNewest is how many files Newest tells.
const mostNewest = 8

// Newest returns the paths of up to mostNewest files of an input, those that changed last first.
// It leaves out empty files, and those that the input excludes.
func Newest(in *config.Input) ([]string, error) {
	type found struct {
		path string
		at   time.Time
	}
	var all []found
	for _, pattern := range in.Paths {
		paths, err := doublestar.FilepathGlob(pattern, doublestar.WithFilesOnly())
		if err != nil {
			return nil, fmt.Errorf("look for %q: %w", pattern, err)
		}
		for _, path := range paths {
			st, err := os.Stat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist) || err == nil && (!st.Mode().IsRegular() || st.Size() == 0) || in.Excludes(config.Absolute(path)):
			case err != nil:
				return nil, fmt.Errorf("look at a file: %w", err)
			default:
				all = append(all, found{filepath.Clean(path), st.ModTime()})
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.path, b.path)) })
	var files []string
	for _, f := range all {
		if len(files) < mostNewest && !slices.Contains(files, f.path) { // several patterns can match it
			files = append(files, f.path)
		}
	}
	return files, nil
}
