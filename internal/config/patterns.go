package config

import (
	"errors"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"kusto-agent/internal/format"
	"kusto-agent/tail"
)

// takenApart checks the keys that say how lines, or the messages inside the lines of a container
// log, are split into fields: inner, pattern, types, time and on_error. A key that has no meaning
// with the present parse and inner is reported. at is the path of the input in the file src.
func (l *loader) takenApart(in *Input, src *source, at string) {
	parse, known := format.ParseOf(in.Parse)
	inner, ok := format.InnerOf(in.Inner)
	if known && ok && !parse.Container() && inner != format.ParseText {
		src.bad(join(at, "inner"), "only with parse: docker or cri, and parse is %s; leave it out", in.Parse)
	}
	how := parse.Taken(inner)
	known = known && (ok || !parse.Container())
	if known && !how.Parsed() && in.OnError != "raw" {
		src.bad(join(at, "on_error"), "only with parse: combined, syslog or regex, or inner with these or json, and %s; leave it out", takenBy(in))
	}
	switch how {
	case format.ParseRegex:
		l.pattern(in, src, at)
		return
	case format.ParseSyslog:
		l.syslog(in, src, at)
	}
	for _, k := range []struct {
		key   string
		given bool
	}{{"pattern", len(in.Pattern) > 0}, {"types", len(in.Types) > 0}, {"time", in.Time != nil}} {
		if known && k.given && (k.key != "time" || how != format.ParseSyslog) {
			src.bad(join(at, k.key), "only with %s: regex, and %s; leave it out, or set %[1]s: regex", takenKey(in), takenBy(in))
		}
	}
}

// takenKey returns the key that says how the text of records is split into fields: inner for
// container logs, which have messages inside their lines, otherwise parse.
func takenKey(in *Input) string {
	if parse, _ := format.ParseOf(in.Parse); parse.Container() {
		return "inner"
	}
	return "parse"
}

// takenBy returns the key that says how the text of records is split into fields, and its value, in
// words: "inner is json" or "parse is logfmt".
func takenBy(in *Input) string {
	if takenKey(in) == "inner" {
		return "inner is " + in.Inner
	}
	return "parse is " + in.Parse
}

// syslog checks the section time of an input whose lines are parsed as syslog, and reports
// mistakes. Of its keys only the time zone may be given: member and layout are reported, since
// parsing syslog sets them by itself. at is the path of the input in the file src.
func (l *loader) syslog(in *Input, src *source, at string) {
	for _, key := range []string{"time.member", "time.layout"} {
		if src.given(join(at, key)) {
			src.bad(join(at, key), "only for %[1]s: regex; %[1]s: syslog sets it by itself, leave it out", takenKey(in))
		}
	}
	var bad *tail.TimeError
	if _, err := in.ZoneOfTimes(); errors.As(err, &bad) {
		src.bad(join(at, "time."+bad.Key), "%v", bad.Err)
	}
}

// pattern checks the regular expressions of an input, and the types and the time of their groups,
// and reports each mistake at its key; at is the path of the input in the file src.
func (l *loader) pattern(in *Input, src *source, at string) {
	if len(in.Pattern) == 0 {
		src.bad(join(at, "pattern"), "missing; %s: regex needs a regular expression with named groups, such as '^(?P<level>\\S+) (?P<message>.*)$'", takenKey(in))
		return
	}
	rest := in.InputConfig // without the mistakes of time that were reported
	_, err := rest.NewPattern()
	for bad, found := errors.AsType[*tail.TimeError](err); found; bad, found = errors.AsType[*tail.TimeError](err) {
		src.bad(join(at, "time."+bad.Key), "%v", bad.Err)
		rest.Time = soundTime(*rest.Time, bad.Key)
		_, err = rest.NewPattern()
	}
	for _, err := range leaves(err) {
		if bad, ok := errors.AsType[*format.PatternError](err); ok {
			badPattern(bad, in, src, at)
		} else {
			src.bad(join(at, "pattern"), "%v", err)
		}
	}
}

// soundTime returns the section time without the mistake that was found in its key, so that what
// else is wrong can be found; nil if there is no time without the key.
func soundTime(t tail.Time, key string) *tail.Time {
	switch key {
	case "zone":
		t.Zone = "utc"
	case "layout":
		t.Layout = "iso8601"
	default:
		return nil
	}
	return &t
}

// badPattern reports a mistake in pattern, or in what types and time say of its groups, of the input
// whose path in the file src is at.
func badPattern(bad *format.PatternError, in *Input, src *source, at string) {
	switch {
	case bad.Time:
		src.bad(join(at, "time.member"), "%q: %v", shortened(bad.Group), bad.Err)
		return
	case bad.Index < 0:
		src.bad(join(at, "types."+bad.Group), "%v", bad.Err)
		return
	}
	text, path := in.Pattern[bad.Index], itemOf(src, join(at, "pattern"), bad.Index)
	place, why := 0, bad.Err.Error()
	if badSyntax, ok := errors.AsType[*syntax.Error](bad.Err); ok {
		place, why = faultIn(text, badSyntax), notRegular(text, badSyntax)
	}
	src.badWithin(path, text, place, why)
}

// notRegular returns the message for a text that is not a regular expression, with the part at
// fault; e is the error of the parser.
func notRegular(text string, e *syntax.Error) string {
	why := "not a regular expression: " + e.Code.String()
	if e.Expr != "" && e.Expr != text {
		why += " in " + quotedShort(e.Expr)
	}
	return why + "; see the RE2 syntax, and put it in single quotes"
}

func quotedShort(text string) string { return "`" + shortened(text) + "`" }

// itemOf returns the path of item i of the list at path, or the path of the list if its only item
// is written without brackets. Only the first ten items have a path of their own.
func itemOf(src *source, path string, i int) string {
	if item := path + "[" + string(rune('0'+i)) + "]"; i < 10 && src.given(item) {
		return item
	}
	return path
}

// faultIn returns the index of the byte at which a regular expression is wrong; e is the error of
// the parser. For parentheses without a partner it finds the place itself, since e does not name
// it.
func faultIn(text string, e *syntax.Error) int {
	switch e.Code {
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen:
		return loneParen(text, e.Code == syntax.ErrUnexpectedParen)
	}
	return max(0, strings.Index(text, e.Expr))
}

// loneParen returns the index of the last opening parenthesis in a regular expression that is not
// closed, or, if closing is set, of the first closing one that closes nothing; 0 if there is none.
// It skips escapes, \Q...\E and classes in brackets.
func loneParen(text string, closing bool) int {
	var open []int
	class := -1 // where a class in brackets begins
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && strings.HasPrefix(text[i:], `\Q`) && class < 0:
			n := strings.Index(text[i:], `\E`)
			if n < 0 {
				i = len(text)
			} else {
				i += n + 1
			}
		case c == '\\':
			i++
		case class >= 0 && c == ']' && i > class+1 && (i > class+2 || text[class+1] != '^'):
			class = -1
		case class >= 0:
		case c == '[':
			class = i
		case c == '(':
			open = append(open, i)
		case c == ')' && len(open) == 0:
			if closing {
				return i
			}
		case c == ')':
			open = open[:len(open)-1]
		}
	}
	if len(open) == 0 {
		return 0
	}
	return open[len(open)-1]
}

// badWithin reports a problem at the byte number place, from 0, of value, which is the value of
// path. The caret points there if the value is written in the file as it is, and otherwise at the
// beginning of the value.
func (s *source) badWithin(path, value string, place int, message string) {
	p, ok := s.places[path]
	if !ok || s.wrong[path] || p.expanded != "" || p.line < 1 || p.line > len(s.lines) {
		s.bad(path, "%s", message)
		return
	}
	raw := []rune(s.lines[p.line-1])
	i, quote := p.col-1, false
	if i >= 0 && i < len(raw) && raw[i] == '\'' {
		i, quote = i+1, true
	}
	at := i
	for n := 0; n < len(value); {
		r, size := utf8.DecodeRuneInString(value[n:])
		if i < 0 || i >= len(raw) || raw[i] != r { // in double quotes, or over several lines
			s.bad(path, "%s", message)
			return
		}
		if n <= place {
			at = i
		}
		if n, i = n+size, i+1; quote && r == '\'' {
			i++
		}
	}
	s.badAt(p.line, at+1, path, message)
}
