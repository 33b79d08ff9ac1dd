package format

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

// Rules leave records out by what they are in the file, and by what was made of
// them; a record that is not sound, or not as Parse says and to be set aside, is
// asked for as text alone. What they leave out is filtered as blank lines are: the
// body has no byte of it, and no piece holds its range. What is sent they may change,
// without its line end: its length in the file is then told beside it.

// RuleKind returns the form in which rules see the records of a format that is parsed as p says:
// lines of text, rows with columns, JSON objects, container messages or other parsed objects. ok
// is false if rules cannot see the records: the format is unknown, or it is Avro.
func RuleKind(f record.Format, p Parse) (kind rules.Kind, ok bool) {
	spec, known := Of(f)
	switch {
	case !known || spec.Ends == InBlocks:
		return 0, false
	case p.Container():
		return rules.Message, true
	case p != ParseNone:
		return rules.Parsed, true
	case spec.Mapping == "Json":
		return rules.Object, true
	case spec.Delimiter != 0:
		return rules.Row, true
	}
	return rules.Line, true
}

// setHeader tells rules the names of the columns: header is the header line of a delimited file,
// nil if it is not known. s.judge filters by rules, s.editor changes by them; either may be nil.
func (s *Scanner) setHeader(header []byte) {
	if s.judge != nil {
		s.judge.SetHeader(header)
	}
	if s.editor != nil {
		s.editor.SetHeader(header)
	}
}

// prepareHeader reads the header line of a delimited file and tells rules the names of the
// columns. If the file has no valid first record within the size limit, rules know no column
// names. It fails only if the file cannot be read.
func (s *Scanner) prepareHeader(file io.ReaderAt) error {
	most := cmp.Or(s.opt.MaxHeader, s.opt.MaxRecord)
	scan, err := New(Options{Format: s.opt.Format, MaxRecord: most, Encoding: s.opt.Encoding})
	if err != nil {
		return err
	}
	for size := min(4<<10, most); ; size = min(4*size, most) {
		data := make([]byte, size)
		n, err := file.ReadAt(data, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read header: %w", err)
		}
		var c Chunk
		scan.Scan(data[:n], 0, false, 1, &c)
		switch {
		case c.Records == 1 && len(c.Rejected) == 0 && c.NULs == 0:
			s.setHeader(RecordText(c.Body))
			return nil
		case c.Consumed > 0 && c.Records == 0 && len(c.Rejected) > 0, n < size, size == most: // there is none
			s.setHeader(nil)
			return nil
		}
	}
}

// leavesOut reports whether rules filter the record data[start:end], and counts a filtered record
// in c under the reason (an index in Rules.Reasons).
func (s *Scanner) leavesOut(c *Chunk, data []byte, start, end int) bool {
	reason := s.judge.At(start, start+len(RecordText(data[start:end])))
	if reason < 0 {
		return false
	}
	c.filter(reason, len(s.opt.Rules.Reasons()))
	return true
}

// leavesOutObject reports whether rules filter an object that parsing made of lines. It notes the
// reason of a filtered one in s.left, to be counted when the whole record is done.
func (s *Scanner) leavesOutObject(lines, object []byte) bool {
	reason := s.judge.Of(RecordText(lines), object)
	if reason >= 0 {
		s.left = append(s.left, reason)
	}
	return reason >= 0
}

// filter counts in c, by reason, the objects of the current record that rules filtered (s.left).
// One record can become several objects: lines of a container log that are read together can hold
// several messages.
func (s *Scanner) filter(c *Chunk) {
	for _, reason := range s.left {
		c.filter(reason, len(s.opt.Rules.Reasons()))
	}
}

// unreadable is why a record is rejected that rules cannot change, so that something
// could get out.
var unreadable = malformed(nowhere, "rules are to change it, and it cannot be taken apart")

// edit handles a record that rules may change: it appends the changed record to the body of c, or
// rejects one that the rules cannot read. done is false if no rule changed anything; the caller
// then appends the record as it is. ok is false if the record has to wait for the next chunk.
// data begins at offset at of the file; k describes the record in it.
func (s *Scanner) edit(c *Chunk, data []byte, at int64, k *cut) (done, ok bool) {
	start, end := c.Consumed+k.lead, c.Consumed+k.n
	text, end, newline := s.content(k, data[start:end], end)
	rec := RecordText(data[start:text])
	out, sound := s.editor.Of(rec)
	switch {
	case !sound:
		s.fault = unreadable
		return true, s.reject(c, data[c.Consumed:], *k)
	case !slices.Contains(s.editor.Acted(), true):
		return false, false
	case !s.fits(c, start, k):
		return true, false
	}
	from, to, before := s.pos(start), s.pos(end), len(c.Body)
	invalid := !k.ascii && !validUTF8(data[start:end]) || s.replaced(data[start:end], start)
	switch {
	case s.joinChanged(c, out, data[start+len(rec):text], newline, at+int64(from)):
	case c.Records > 0:
		return true, false // too long together with the records before; alone it may fit
	default:
		s.fault = fault{reason: record.Grown, text: "as rules make it, it is longer than", limit: s.opt.MaxBody}
		return true, s.reject(c, data[c.Consumed:], *k)
	}
	for i, acted := range s.editor.Acted() {
		if acted {
			c.change(i, len(s.editor.Acted()))
		}
	}
	s.length(c, before, to-from)
	s.note(c, k, from, to, invalid)
	return true, true
}

// joinChanged appends rec, a JSON record or one as rules changed it, to the body of c: with the
// fields of the configuration, then lineEnd, then a newline if newline is set. offset is that of the record in
// its file. It returns false, and leaves the body as it was, if the body would become longer than
// MaxBody.
func (s *Scanner) joinChanged(c *Chunk, rec, lineEnd []byte, newline bool, offset int64) bool {
	c.detach()
	body := c.Body
	if s.opt.Fields == nil {
		body = append(body, rec...)
	} else {
		s.stamp.Offset = offset
		body = s.opt.Fields.Splice(body, rec, &s.stamp)
	}
	if body = append(body, lineEnd...); newline {
		body = append(body, '\n')
	}
	fits := s.opt.MaxBody <= 0 || len(body) <= s.opt.MaxBody
	if !fits {
		body = body[:len(c.Body)]
	}
	c.Body, c.own = body, body
	return fits
}

// change returns an object that parsing made as rules change it, in memory that is valid until
// the next call. If rules cannot read the object, change sets s.closed, and the whole record is
// rejected.
func (s *Scanner) change(object []byte) []byte {
	if s.untaken && s.opt.Rules.Withholds() { // a line that was not parsed may hold what must not be sent
		return s.withhold()
	}
	out, sound := s.editor.Of(object)
	if !sound {
		s.closed = true
		return object
	}
	for i, acted := range s.editor.Acted() {
		if acted {
			s.acted = append(s.acted, i)
		}
	}
	return out
}

// withhold returns the object that is sent in place of a line that could not be parsed and may
// hold something that rules keep from being sent. Its message says so; parse_error says, if it is
// known, why the line could not be parsed.
func (s *Scanner) withhold() []byte {
	o := object{dst: append(s.withheld[:0], '{')}
	o.text(`"message":"`, []byte("withheld: it is not as parse says, and something of it must not be sent as it is"))
	if s.misfits > 0 {
		o.text(`"parse_error":"`, []byte(s.misfit))
	}
	s.withheld = append(o.dst, '}')
	return s.withheld
}

// countActed counts in c how often each rule changed an object of the current record.
func (s *Scanner) countActed(c *Chunk) {
	for _, rule := range s.acted {
		c.change(rule, len(s.opt.Rules.Changes()))
	}
}

// RecordText is a record without its newline or CRLF, or a CR that has lost its LF.
func RecordText(rec []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(rec, []byte{'\n'}), []byte{'\r'})
}
