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

// parsed is the way of parsing that takes lines apart, empty where there is none:
// nine lines of ten have to be as it says.
func parsed(lines []string) string {
	text := []byte(strings.Join(lines, "\n"))
	for _, how := range []format.Parse{format.ParseCombined, format.ParseSyslog} { // regex needs settings
		if matched, all := matches(how, text); all > 0 && 10*matched >= 9*all {
			return how.String()
		}
	}
	pairs := 0
	for _, line := range lines {
		if isLogfmt(line) {
			pairs++
		}
	}
	if 10*pairs >= 9*len(lines) {
		return format.ParseLogfmt.String()
	}
	return ""
}

// within is what the messages of a container log hold, empty where that is text: nine of
// ten have to be so. Blank ones, which many write, tell nothing.
func within(container format.Parse, lines []string) string {
	var messages []string
	objects := 0
	for object := range scanned(format.Options{Parse: container}, []byte(strings.Join(lines, "\n")+"\n")) {
		var m struct{ Message string }
		if json.Unmarshal(object, &m) != nil || strings.TrimSpace(m.Message) == "" {
			continue
		}
		messages = append(messages, m.Message)
		if isObject(m.Message) {
			objects++
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

// scanned are the objects that are made of lines.
func scanned(o format.Options, text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		o.Format, o.MaxRecord = record.JSON, 1<<20
		scan, err := format.New(o)
		if err != nil {
			return
		}
		var c format.Chunk
		for at := 0; at < len(text); at += c.Consumed {
			scan.Scan(text[at:], int64(at), true, 0, &c)
			for line := range bytes.Lines(c.Body) {
				if !yield(line) {
					return
				}
			}
			if c.Consumed == 0 {
				return
			}
		}
	}
}

// matches counts the lines that are as a way of parsing says, and all.
func matches(how format.Parse, text []byte) (matched, all int) {
	scan, err := format.New(format.Options{Format: record.JSON, Parse: how, OnError: format.DropUnmatched, MaxRecord: 1 << 20})
	if err != nil {
		return 0, 0
	}
	scan.SetStamp(format.Stamp{Dated: time.Now().UnixNano()}) // any year will do
	var c format.Chunk
	for at := 0; at < len(text); at += c.Consumed {
		scan.Scan(text[at:], int64(at), true, 0, &c)
		matched, all = matched+c.Records, all+c.Records+c.Unmatched+len(c.Rejected)
		if c.Consumed == 0 { // a line that is too long to be one
			return 0, 0
		}
	}
	return matched, all
}

var logfmtPair = regexp.MustCompile(`(?:^| )[A-Za-z_][A-Za-z0-9_./-]*=(?:"(?:[^"\\]|\\.)*"|[^" ]*)`)

// isLogfmt: a line begins with a key and its value, has another, and little else.
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

// Expect has columns in the sample before any record is seen, so that each has its
// type though the sample may hold none.
func (s *Sample) Expect(columns []format.Column) {
	for _, c := range columns {
		s.see(c.Name, Type(c.Type))
	}
}
