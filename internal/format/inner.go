package format

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"kusto-agent/internal/jsontext"
)

// Inner: the text of a message of a container log is taken apart as a line would be.
// The members of its object stand where "message" stands without, between those of
// the container: "time" and "stream" before, "partial" and what else a docker line has
// behind. A member whose name is one of theirs is told by a number, as in logfmt:
// time_2. A message that is not as Inner says is the object that there is without,
// and tells why.

var inners = []Parse{ParseText, ParseJSON, ParseLogfmt, ParseCombined, ParseSyslog, ParseRegex}

// Inners returns the names that inner can have in the configuration: the formats of messages in
// container logs.
func Inners() (names []string) {
	for _, p := range inners {
		names = append(names, p.String())
	}
	return names
}

// InnerOf returns the way to parse the messages in a container log that has this name in
// the configuration.
func InnerOf(name string) (Parse, bool) {
	p, ok := wordOf[Parse](parses, name)
	if !ok || !slices.Contains(inners, p) {
		return 0, false
	}
	return p, true
}

// Container reports whether lines are those of a container log, with messages inside.
func (p Parse) Container() bool { return p == ParseDocker || p == ParseCRI }

// Taken returns how the text of a record is parsed: as p says, or in container logs, where p is
// for the line around it, as inner says.
func (p Parse) Taken(inner Parse) Parse {
	if p.Container() {
		return inner
	}
	return p
}

func (o *Options) taken() Parse { return o.Parse.Taken(o.Inner) }

// appendInner parses text, the message of a container log line, as Options.Inner says, and
// appends the members of the result to dst, the unfinished JSON object of the line. A name that
// the line itself uses gets a number, such as time_2. lossy says that invalid characters were
// replaced.
func (s *Scanner) appendInner(dst, text []byte, m *message) (_ []byte, lossy bool) {
	if s.opt.Parse == ParseDocker { // there the message is a JSON string
		s.unescaped, lossy = jsontext.AppendPlain(s.unescaped[:0], text)
		text = s.unescaped
	}
	made, bad := s.take(s.inner[:0], text, s.opt.Inner)
	s.inner = made
	from := skipSpace(made, 1)
	if made[from] == '}' {
		return dst, lossy || bad
	}
	dst = withComma(dst)
	for i := from; ; {
		begin := i
		i, _ = stringEnd(made, i+1)
		if name := made[begin+1 : i-1]; s.unit.has(m, name) {
			dst = append(dst, made[from:i-1]...)
			dst = s.appendFreeNumber(dst, name, m)
			from = i - 1
		}
		i = skipSpace(made, jsontext.ValueEnd(made, skipSpace(made, skipSpace(made, i)+1)))
		if made[i] == '}' {
			return append(dst, made[from:i]...), lossy || bad
		}
		i = skipSpace(made, i+1)
	}
}

// withComma appends a comma to dst, an unfinished JSON object, if the object has a member
// already.
func withComma(dst []byte) []byte {
	if dst[len(dst)-1] == '{' {
		return dst
	}
	return append(dst, ',')
}

// has reports whether the record of the message has a member of this name beside those that
// its text is parsed into: time, stream, partial, or another member of the container's line.
// name is as in JSON, and may have escapes.
func (u *unit) has(m *message, name []byte) bool {
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendPlain(nil, name)
	}
	switch string(name) {
	case "time", "stream", "partial":
		return true
	}
	for _, member := range u.beside[m.from:m.to] {
		end, _ := stringEnd(member, 1)
		if isNamed(member[1:end-1], name) {
			return true
		}
	}
	return false
}

// isNamed reports whether written, a name as it is in JSON, with escapes or without, is the name
// plain.
func isNamed(written, plain []byte) bool {
	if bytes.IndexByte(written, '\\') >= 0 {
		written, _ = jsontext.AppendPlain(nil, written)
	}
	return bytes.Equal(written, plain)
}

// appendFreeNumber appends an underscore and a number to name, which is at the end of dst: the
// least number from 2 on with which no member of the message has that name.
func (s *Scanner) appendFreeNumber(dst, name []byte, m *message) []byte {
	s.free, _ = jsontext.AppendPlain(s.free[:0], name)
	s.free = append(s.free, '_')
	base := len(s.free)
	for n := int64(2); ; n++ {
		s.free = strconv.AppendInt(s.free[:base], n, 10)
		if !s.unit.has(m, s.free) && !hasMember(s.inner, s.free) {
			return append(dst, s.free[base-1:]...)
		}
	}
}

// hasMember reports whether object, which is valid JSON, has a member with the name plain.
func hasMember(object, plain []byte) bool {
	if !bytes.Contains(object, plain) && bytes.IndexByte(object, '\\') < 0 { // nor one that is escaped
		return false
	}
	for i := skipSpace(object, 1); object[i] != '}'; {
		begin := i
		if i, _ = stringEnd(object, i+1); isNamed(object[begin+1:i-1], plain) {
			return true
		}
		i = skipSpace(object, jsontext.ValueEnd(object, skipSpace(object, skipSpace(object, i)+1)))
		if object[i] == ',' {
			i = skipSpace(object, i+1)
		}
	}
	return false
}

// appendJSON appends text, which should be a JSON object, on one line: newlines become spaces.
// lossy says that invalid UTF-8 was replaced. If text is no object, the result is a fault and dst
// as it was.
func (s *Scanner) appendJSON(dst, text []byte) (_ []byte, lossy bool, f fault) {
	from := len(dst)
	if utf8.Valid(text) {
		dst = append(dst, text...)
	} else {
		lossy = true
		for rest := text; len(rest) > 0; {
			r, n := utf8.DecodeRune(rest)
			dst, rest = utf8.AppendRune(dst, r), rest[n:]
		}
	}
	object := dst[from:]
	if _, f = strictJSON(object); f.text != "" {
		if lossy {
			f = malformed(nowhere, "it is neither UTF-8 nor an object")
		}
		return dst[:from], false, f
	}
	begin, end := skipSpace(object, 0), bytes.LastIndexByte(object, '}')+1
	object = append(object[:0], object[begin:end]...)
	for i, c := range object { // a valid string holds no newline: each stands between tokens
		if c == '\n' || c == '\r' {
			object[i] = ' '
		}
	}
	return dst[:from+len(object)], lossy, fault{}
}
