package schema

import (
	"bytes"
	"encoding/json"
	"iter"
	"regexp"
	"strings"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// parsed returns the value of the setting parse (combined, syslog or logfmt) that fits at least
// nine of ten lines; "" if none does.
func parsed(lines []string) string {
	text := []byte(strings.Join(lines, "\n"))
	for _, how := range []format.Parse{format.ParseCombined, format.ParseSyslog} { // regex needs settings
		if matched, all := matches(how, text); all > 0 && 10*matched >= 9*all {
			return how.String()
		}
	}
	if share(9, lines, isLogfmt) {
		return format.ParseLogfmt.String()
	}
	return ""
}

// within returns how the messages inside the lines of a container log can be parsed, if nine of ten
// agree: "json", or a value that the function parsed returns. It returns "" for plain text, and if
// there are no messages; blank ones do not count.
func within(container format.Parse, lines []string) string {
	var messages []string
	objects := 0
	for c := range scanned(format.Options{Parse: container}, []byte(strings.Join(lines, "\n")+"\n")) {
		for object := range bytes.Lines(c.Body) {
			var m struct{ Message string }
			if json.Unmarshal(object, &m) != nil || strings.TrimSpace(m.Message) == "" {
				continue
			}
			messages = append(messages, m.Message)
			if isObject(m.Message) {
				objects++
			}
		}
	}
	switch {
	case len(messages) == 0:
		return ""
	case 10*objects >= 9*len(messages):
		return format.ParseJSON.String()
	}
	return parsed(messages)
}

// scanned iterates over what the agent makes of a text with the options o: JSON objects, one a line. A
// chunk is valid until the next one. The iteration ends with a chunk that consumes nothing at a line
// that is too long, and at once for a way of parsing that needs settings.
func scanned(o format.Options, text []byte) iter.Seq[*format.Chunk] {
	return func(yield func(*format.Chunk) bool) {
		o.Format, o.MaxRecord = record.JSON, 1<<20
		scan, err := format.New(o)
		if err != nil {
			return
		}
		scan.SetStamp(format.Stamp{Dated: time.Now().UnixNano()}) // syslog lines have no year; any year will do here
		var c format.Chunk
		for at := 0; at < len(text); at += c.Consumed {
			scan.Scan(text[at:], int64(at), true, 0, &c)
			if !yield(&c) || c.Consumed == 0 {
				return
			}
		}
	}
}

// matches returns how many lines of a text the parser how can read, and how many lines there are.
// It returns 0 and 0 if the parser cannot be used without settings, or if a line is too long.
func matches(how format.Parse, text []byte) (matched, all int) {
	for c := range scanned(format.Options{Parse: how, OnError: format.DropUnmatched}, text) {
		if c.Consumed == 0 { // a line that is longer than MaxRecord
			return 0, 0
		}
		matched, all = matched+c.Records, all+c.Records+c.Unmatched+len(c.Rejected)
	}
	return matched, all
}

var logfmtPair = regexp.MustCompile(`(?:^| )[A-Za-z_][A-Za-z0-9_./-]*=(?:"(?:[^"\\]|\\.)*"|[^" ]*)`)

// isLogfmt reports whether a line begins with key=value, has another such pair, and nine tenths of
// it are pairs.
func isLogfmt(line string) bool {
	all := logfmtPair.FindAllStringIndex(line, -1)
	if len(all) < 2 || all[0][0] != 0 {
		return false
	}
	n := 0
	for _, at := range all {
		n += at[1] - at[0]
	}
	return 10*n >= 9*len(line)
}

// Expect adds columns to the sample before any record is seen, so that they have their types even if
// no record fills them.
func (s *Sample) Expect(columns []format.Column) {
	for _, c := range columns {
		s.see(c.Name, Type(c.Type))
	}
}
