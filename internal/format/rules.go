package format

import (
	"bytes"

	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

// Rules leave records out by what they are in the file, and by what was made of
// them; a record that is not sound, or not as Parse says and to be set aside, is
// asked for as text alone. What they leave out is filtered as blank lines are: the
// body has no byte of it, and no piece holds its range.

// RuleKind is what rules see of the records of a format. Without ok nobody sees them.
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

// leavesOut counts a record that rules leave out, and reports whether they do.
func (s *Scanner) leavesOut(c *Chunk, rec []byte) bool {
	text := recordText(rec)
	var object []byte
	if s.spec.Mapping == "Json" {
		object = text
	}
	reason := s.judge.Of(text, object)
	if reason < 0 {
		return false
	}
	c.filter(reason, len(s.opt.Rules.Reasons()))
	return true
}

// leavesOutObject notes an object made of lines that rules leave out, and reports
// whether they do. It is empty where the lines are not as Parse says and not sent.
func (s *Scanner) leavesOutObject(lines, object []byte) bool {
	reason := s.judge.Of(recordText(lines), object)
	if reason >= 0 {
		s.left = append(s.left, reason)
	}
	return reason >= 0
}

// filter counts the objects of the record at hand that are left out.
func (s *Scanner) filter(c *Chunk) {
	for _, reason := range s.left {
		c.filter(reason, len(s.opt.Rules.Reasons()))
	}
}

// recordText is a record without its newline or CRLF, or a CR that has lost its LF.
func recordText(rec []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(rec, []byte{'\n'}), []byte{'\r'})
}
