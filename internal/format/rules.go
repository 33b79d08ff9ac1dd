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

// RuleKind returns what rules see of the records of a format; ok is false if rules cannot
// see them.
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

// setHeader gives the names of the columns to the rules; nil: they are not known.
func (s *Scanner) setHeader(header []byte) {
	if s.judge != nil {
		s.judge.SetHeader(header)
	}
	if s.editor != nil {
		s.editor.SetHeader(header)
	}
}

// prepareHeader reads the header of a delimited file, from which rules know the columns.
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
			s.setHeader(recordText(c.Body))
			return nil
		case c.Consumed > 0 && c.Records == 0 && len(c.Rejected) > 0, n < size, size == most:
			s.setHeader(nil)
			return nil
		}
	}
}

// leavesOut reports whether rules filter the record data[start:end], and counts it.
func (s *Scanner) leavesOut(c *Chunk, data []byte, start, end int) bool {
	reason := s.judge.At(start, start+len(recordText(data[start:end])))
	if reason < 0 {
		return false
	}
	c.filter(reason, len(s.opt.Rules.Reasons()))
	return true
}

// leavesOutObject reports whether rules filter an object that was made of lines, and notes
// the reason.
func (s *Scanner) leavesOutObject(lines, object []byte) bool {
	reason := s.judge.Of(recordText(lines), object)
	if reason >= 0 {
		s.left = append(s.left, reason)
	}
	return reason >= 0
}

// filter counts in c, by reason, the objects of the current record that rules left out. It can
// have several objects: a cut of a container log can hold several messages.
func (s *Scanner) filter(c *Chunk) {
	for _, reason := range s.left {
		c.filter(reason, len(s.opt.Rules.Reasons()))
	}
}

// unreadable is why a record is rejected that rules cannot change, so that something
// could get out.
var unreadable = malformed(nowhere, "rules are to change it, and it cannot be taken apart")

// edit appends a record that rules change, or rejects one that they cannot read. done is
// false if no rule acted: then accept handles the record.
func (s *Scanner) edit(c *Chunk, data []byte, at int64, k *cut) (done, ok bool) {
	start, end := c.Consumed+k.lead, c.Consumed+k.n
	text, newline := end, !k.ended
	if cr := k.cr + s.trailingCR(data[start:end]); cr > 0 {
		if text, newline = end-cr, true; !k.ended {
			end = text
		}
	}
	rec := recordText(data[start:text])
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
		return true, false // alone it may have room
	default:
		s.fault = fault{reason: record.Grown, text: "as rules make it, it is longer than", limit: s.opt.MaxBody}
		return true, s.reject(c, data[c.Consumed:], *k)
	}
	for i, acted := range s.editor.Acted() {
		if acted {
			c.change(i, len(s.editor.Acted()))
		}
	}
	if s.opt.Validate {
		c.Group = k.fields
	}
	if invalid {
		c.InvalidUTF8++
	}
	s.length(c, before, to-from)
	c.piece(from, to, 1)
	c.Records++
	return true, true
}

// joinChanged appends a changed record with its line end to the body. It returns false,
// and leaves the body as it was, if the body would become too long.
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

// change returns an object as rules change it.
func (s *Scanner) change(object []byte) []byte {
	if s.untaken && s.opt.Rules.Withholds() {
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

// withhold returns the object that is sent in place of a line that could not be parsed but
// may hold something that must not be sent.
func (s *Scanner) withhold() []byte {
	o := object{dst: append(s.withheld[:0], '{')}
	o.text(`"message":"`, []byte("withheld: it is not as parse says, and something of it must not be sent as it is"))
	if s.misfits > 0 {
		o.text(`"parse_error":"`, []byte(s.misfit))
	}
	s.withheld = append(o.dst, '}')
	return s.withheld
}

// countActed counts the changes of the objects of the record at hand.
func (s *Scanner) countActed(c *Chunk) {
	for _, rule := range s.acted {
		c.change(rule, len(s.opt.Rules.Changes()))
	}
}

// recordText is a record without its newline or CRLF, or a CR that has lost its LF.
func recordText(rec []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(rec, []byte{'\n'}), []byte{'\r'})
}
