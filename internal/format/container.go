package format

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"kusto-agent/internal/jsontext"
)

// The logs of container runtimes: each line is a message, or a part of a long
// one, of the stream that it names.
//
// Docker (json-file): {"log":"...\n","stream":"stdout","time":"..."}; without
// the newline the message goes on in the next line of its stream.
// CRI: <time> <stream> <tag> <text>; with tag P it goes on, with F it is whole.
//
// Each message becomes {"time":"...","stream":"...","message":"..."}, or with the
// members of what Options.Inner makes of it in the place of the message, with the
// time of its first part as it stands there, and other members of a docker line
// behind it. Streams interleave: all lines from the first part of a message to
// where no message is open any more are read as one unit, whose messages are
// never parted. It ends early, and what is open then has "partial":true, where
// the file does, where no end is waited for any longer (SetQuiet), and at a line
// that is none of its format. So a part is sent as it is where the rest cannot
// be joined.
//
// A message is as long as all lines from its first part to its last, those of
// other streams between them included. One that is longer than MaxRecord is
// passed line by line with SkipParts: its lines are rejected, those of other
// streams are not. (Messages of several streams that overlap without end are
// parted before the line with which they would be longer together.)
//
// A line that is none of its format is rejected; without Validate it is sent as
// {"message":"..."}.

// mostStreams is how many streams can have an open message.
const mostStreams = 8

// unit is lines whose messages are read together.
type unit struct {
	messages []message
	parts    []fragment
	beside   [][]byte // members
	open     []int    // the messages that go on
}

// message is put together from fragments, in a chain.
type message struct {
	containerLine
	at          int // where in the unit its first line begins
	first, last int // fragments
}

type fragment struct {
	text []byte
	next int // 0: none
}

// containerLine is one line of a log.
type containerLine struct {
	time, stream, text []byte // nil: it has none
	from, to           int    // members beside these: a range of unit.beside; to is -1 where it is no line of a log
	partial            bool   // the message goes on behind it
}

// assemble extends k, the cut (kind and length) of one line of a container log at the beginning
// of data, to all lines of its message. Messages of other streams that begin between these lines
// belong to the cut too, with all their lines. k.records is the number of messages. k becomes
// open if more data is needed, and endless if the first message is too long. last says that
// nothing follows data.
func (s *Scanner) assemble(k *cut, data []byte, last bool) {
	u := &s.unit
	u.messages, u.parts, u.beside, u.open = u.messages[:0], u.parts[:0], u.beside[:0], u.open[:0]
	l, f := s.containerLine(data[:k.n])
	switch {
	case f.text == "":
	case s.opt.Validate:
		k.kind, s.fault = unsound, f
		return
	default:
		l = containerLine{text: withoutEnd(data[:k.n]), to: -1}
	}
	u.add(l, 0)
	for len(u.open) > 0 && k.ended {
		rest := data[k.n:]
		if len(rest) > 0 && rest[0] == 0 { // a crash left NUL bytes where more lines were
			break
		}
		n, ended := s.lineIn(data, k.n)
		cutOff := n == 0
		if cutOff {
			n = len(rest)
		}
		switch {
		case k.n+n > s.opt.MaxRecord, cutOff && k.n+n == s.opt.MaxRecord:
			if u.open[0] == 0 { // the first message is too long: the caller skips it with SkipParts
				*k = cut{kind: endless, n: firstLine(data), parts: true}
				s.fault = s.tooLong("with all its parts longer than")
				return
			}
			k.records = len(u.messages)
			return
		case cutOff && (s.ends || last && n == 0): // no more lines will come: the messages stay partial
			k.records = len(u.messages)
			return
		case cutOff && !last:
			k.kind = open
			return
		}
		if l, f = s.containerLine(rest[:n]); f.text != "" || !u.add(l, k.n) {
			break
		}
		k.n, k.ended = k.n+n, ended
	}
	k.records = len(u.messages)
}

// add adds a line of a container log to the message of its stream, or begins a message with it.
// at is the index of the line in the data. It returns false, and adds nothing, if too many
// streams have an incomplete message.
func (u *unit) add(l containerLine, at int) bool {
	n := slices.IndexFunc(u.open, func(i int) bool { return bytes.Equal(u.messages[i].stream, l.stream) })
	if n < 0 && l.partial && len(u.open) == mostStreams {
		return false
	}
	u.parts = append(u.parts, fragment{text: l.text})
	part := len(u.parts) - 1
	if n < 0 {
		if l.partial {
			u.open = append(u.open, len(u.messages))
		}
		u.messages = append(u.messages, message{containerLine: l, at: at, first: part, last: part})
		return true
	}
	m := &u.messages[u.open[n]]
	u.parts[m.last].next = part
	if m.last, m.partial = part, l.partial; !l.partial {
		u.open = slices.Delete(u.open, n, n+1)
	}
	return true
}

// SkipParts skips a container message that is too long (see Chunk.Parts); it is called in place
// of SkipLong. data begins after the first line of the message, stream names its stream (stdout
// or stderr). own has the ranges of data that are lines of the message; lines of other streams
// between them are still to be scanned, each stretch as if nothing followed it. n is how many
// bytes were passed. If done is false the message continues: the caller calls SkipParts again
// with the bytes after these.
//
// The message ends with its last part, or before a line that is longer than MaxRecord. last says
// that nothing follows data. own is memory of the scanner, valid until its next call.
func (s *Scanner) SkipParts(data, stream []byte, last bool) (own []Piece, n int, done bool) {
	s.ends = s.quiet
	if s.opt.Encoding == UTF8 {
		return s.skipParts(data, stream, last)
	}
	own, n, done = s.skipParts(s.decodeSkipped(data, last), stream, last)
	for i := range own {
		own[i].Start, own[i].End = s.pos(own[i].Start), s.pos(own[i].End)
	}
	n, s.raw = s.pos(n), nil
	return own, n, done
}

// skipParts skips the rest of a container message that is too long, in data that is UTF-8. It
// returns the ranges of data that are lines of the stream, the number n of bytes passed, and
// whether the message has ended there. last says that nothing follows data. See SkipParts.
func (s *Scanner) skipParts(data, stream []byte, last bool) (_ []Piece, n int, done bool) {
	s.lines = s.lines[:0]
	for {
		line := data[n:]
		if len(line) > 0 && line[0] == 0 {
			return s.lines, n, true
		}
		length, ended := s.lineIn(line, 0)
		if length > 0 {
			line = line[:length]
		}
		switch {
		case len(line) > s.opt.MaxRecord || length == 0 && (s.ends || last && len(line) == 0):
			return s.lines, n, true
		case length == 0 && !last:
			return s.lines, n, false
		}
		s.unit.beside = s.unit.beside[:0]
		l, f := s.containerLine(line)
		if f.text != "" {
			return s.lines, n, true
		}
		if n += len(line); !bytes.Equal(l.stream, stream) {
			if !ended { // NUL bytes from a crash end the line, and all messages
				return s.lines, n, true
			}
			continue
		}
		if i := len(s.lines) - 1; i >= 0 && s.lines[i].End == n-len(line) {
			s.lines[i].End = n
		} else {
			s.lines = append(s.lines, Piece{Start: n - len(line), End: n})
		}
		if !l.partial || !ended {
			return s.lines, n, true
		}
	}
}

// containerLine parses one line of a CRI or Docker container log. If the line is no such line,
// the fault says why. The members of a Docker line other than its text are appended to
// s.unit.beside, at the indexes from l.from to l.to.
func (s *Scanner) containerLine(line []byte) (l containerLine, f fault) {
	if s.opt.Parse == ParseCRI {
		return criLine(line)
	}
	line = bytes.TrimRight(line, "\r\n")
	beyond, f := strictJSON(line)
	switch {
	case f.text != "":
		return l, f
	case beyond && !utf8.Valid(line): // the record is built from the members, so invalid bytes in them would be sent
		return l, malformed(nowhere, "it is not UTF-8")
	}
	l.from = len(s.unit.beside)
	for i := skipSpace(line, 0) + 1; ; {
		if i = skipSpace(line, i); line[i] == '}' {
			break
		}
		if line[i] == ',' {
			i = skipSpace(line, i+1)
		}
		begin := i
		i, _ = stringEnd(line, i+1)
		name := line[begin+1 : i-1]
		at := skipSpace(line, skipSpace(line, i)+1)
		i = jsontext.ValueEnd(line, at)
		if f = l.member(s, name, line[begin:i], line[at:i], begin); f.text != "" {
			return l, f
		}
	}
	l.to = len(s.unit.beside)
	if l.text == nil {
		return l, malformed(nowhere, "it has no member log")
	}
	l.text, l.partial = withoutNewline(l.text)
	return l, fault{}
}

// member stores one member of a Docker line: log, stream and time in l, others in s.unit.beside.
// name and value are as in JSON, whole has both, and at is its index in the line. The fault is
// for a member that is there twice, is no string, or has a name that the agent itself uses
// (message, partial).
func (l *containerLine) member(s *Scanner, name, whole, value []byte, at int) fault {
	var to *[]byte
	switch string(name) {
	case "log":
		to = &l.text
	case "stream":
		to = &l.stream
	case "time":
		to = &l.time
	case "message", "partial":
		return malformed(at, "a member that no log of docker has")
	default:
		s.unit.beside = append(s.unit.beside, whole)
		return fault{}
	}
	switch {
	case *to != nil:
		return malformed(at, "a member that was there before")
	case value[0] != '"':
		return malformed(at, "a member whose value is not a string")
	}
	*to = value[1 : len(value)-1]
	return fault{}
}

// withoutNewline removes the newline, or CRLF, at the end of the content of a JSON string.
// Without a newline the text is a part of a message.
func withoutNewline(text []byte) (_ []byte, partial bool) {
	bare := withoutEscape(text, "n", "u000a")
	if len(bare) == len(text) {
		return text, true
	}
	return withoutEscape(bare, "r", "u000d"), false
}

// withoutEscape removes one escape, such as \n or \u000a, from the end of the content of a JSON
// string. short and long are its two forms without the backslash. If text does not end with it,
// the result is text.
func withoutEscape(text []byte, short, long string) []byte {
	for _, name := range []string{short, long} {
		n := len(text) - len(name)
		// Only hexadecimal digits may be in upper case.
		if n < 1 || !bytes.EqualFold(text[n:], []byte(name)) || name == short && text[n] != name[0] || text[n] == 'U' {
			continue
		}
		slashes := n - len(bytes.TrimRight(text[:n], `\`)) // an even number: they escape each other
		if slashes%2 == 1 {
			return text[:n-1]
		}
	}
	return text
}

// criLine parses a line of the CRI format, with or without its newline: time, stream, tag, text.
// If the line is no such line, the fault says why.
func criLine(line []byte) (l containerLine, f fault) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	var tag []byte
	at := 0
	field := func() (word []byte) {
		if n := bytes.IndexByte(line[at:], ' '); n >= 0 {
			word, at = line[at:at+n], at+n+1
		} else {
			word, at = line[at:], len(line)
		}
		return word
	}
	if l.time = field(); !isTime(l.time) {
		return l, malformed(0, "no time where a line of CRI must begin with one")
	}
	begin := at
	if l.stream = field(); string(l.stream) != "stdout" && string(l.stream) != "stderr" {
		return l, malformed(begin, "neither stdout nor stderr behind the time")
	}
	begin = at
	switch tag, _, _ = bytes.Cut(bytes.TrimSuffix(field(), []byte{'\r'}), []byte{':'}); string(tag) {
	case "F":
		l.text = bytes.TrimSuffix(line[at:], []byte{'\r'})
	case "P":
		l.text, l.partial = line[at:], true
	default:
		return l, malformed(begin, "neither of the tags P and F behind the stream")
	}
	return l, fault{}
}

// isTime reports whether text begins with a time of ISO 8601.
func isTime(text []byte) bool { return isLike(text, "0000-00-00T00:00:00") }

// appendMessage appends the JSON object of a container message to dst: time, stream, the text,
// which is joined from its parts and parsed if Inner says so, partial if the message is not
// complete, and other members of a Docker line. lossy says that invalid characters were replaced.
func (s *Scanner) appendMessage(dst []byte, m *message) (_ []byte, lossy bool) {
	docker := s.opt.Parse == ParseDocker && m.to >= 0 // to is -1 for a line that is not of a container log
	member := func(name string, text []byte) {
		dst = append(dst, name...)
		if docker { // escaped for JSON already
			dst = append(dst, text...)
			return
		}
		var bad bool
		dst, bad = appendString(dst, text)
		lossy = lossy || bad
	}
	dst = append(dst, '{')
	if m.time != nil {
		member(`"time":"`, m.time)
		dst = append(dst, `",`...)
	}
	if m.stream != nil {
		member(`"stream":"`, m.stream)
		dst = append(dst, `",`...)
	}
	text := m.text
	if m.first != m.last { // a character may be in two parts
		s.joined = s.joined[:0]
		for i := m.first; ; i = s.unit.parts[i].next {
			s.joined = append(s.joined, s.unit.parts[i].text...)
			if i == m.last {
				break
			}
		}
		text = s.joined
	}
	if s.opt.Inner > ParseText && m.to >= 0 {
		var bad bool
		dst, bad = s.appendInner(bytes.TrimSuffix(dst, []byte{','}), text, m)
		lossy = lossy || bad
	} else {
		member(`"message":"`, text)
		dst = append(dst, '"')
	}
	if m.partial {
		dst = append(withComma(dst), `"partial":true`...)
	}
	for i := m.from; i < m.to; i++ {
		dst = append(withComma(dst), s.unit.beside[i]...)
	}
	return append(dst, '}'), lossy
}
