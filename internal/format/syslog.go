package format

import (
	"bytes"
	"cmp"
	"strconv"
	"time"
)

// Syslog: what rsyslog and others write to files. Of RFC 3164, with its priority or
// without, the time as Mar  1 12:00:00 or in ISO 8601:
//
//	[<pri>]time host [app[[pid]]: ]message
//
// Of RFC 5424, where "-" stands for none:
//
//	<pri>1 time host app procid msgid [id name="value"...]... message
//
// Members are time in RFC 3339, host, app, pid (a number; procid where it is none),
// facility and severity of the priority, msgid, data (an object of objects) and
// message. A name that comes again in data is told by a number, as in logfmt.

// syslog writes the object of one line.
type syslog struct {
	object
	s    *Scanner
	line []byte
	at   int // what is before was read
}

// appendSyslog appends the JSON object of a line of syslog. If the line is not syslog, the fault
// says why, and dst is as it was.
func (s *Scanner) appendSyslog(dst, line []byte) (_ []byte, lossy bool, f fault) {
	l := syslog{object: object{dst: append(dst, '{')}, s: s, line: line}
	pri, ok := l.priority()
	if !ok {
		return dst, false, malformed(0, "no priority from <0> to <191>")
	}
	if pri >= 0 && l.isVersion() {
		f = l.modern()
	} else {
		f = l.classic()
	}
	if f.text != "" {
		return dst, false, f
	}
	if pri >= 0 {
		l.begin(`"facility":`)
		l.dst = strconv.AppendInt(l.dst, int64(pri>>3), 10)
		l.begin(`"severity":`)
		l.dst = strconv.AppendInt(l.dst, int64(pri&7), 10)
	}
	l.text(`"message":"`, line[l.at:])
	l.dst = append(l.dst, '}')
	return l.dst, l.lossy, fault{}
}

// priority reads the priority <pri> at the beginning of the line; pri is -1 if the line has none.
// ok is false if it is not a number from 0 to 191 in angle brackets.
func (l *syslog) priority() (pri int, ok bool) {
	if len(l.line) == 0 || l.line[0] != '<' {
		return -1, true
	}
	n := digitsOf(l.line[1:])
	if n < 1 || n > 3 || len(l.line) < n+2 || l.line[n+1] != '>' {
		return 0, false
	}
	for _, c := range l.line[1 : n+1] {
		pri = 10*pri + int(c-'0')
	}
	l.at = n + 2
	return pri, pri <= 191
}

// isVersion reports whether the line continues at l.at with the version of RFC 5424 (1) and a
// space.
func (l *syslog) isVersion() bool {
	rest := l.line[l.at:]
	return len(rest) > 1 && rest[0] == '1' && rest[1] == ' '
}

// word returns the text from l.at to the next space, or to the end of the line, and moves l.at
// past that space.
func (l *syslog) word() []byte {
	rest := l.line[l.at:]
	if n := bytes.IndexByte(rest, ' '); n >= 0 {
		l.at += n + 1
		return rest[:n]
	}
	l.at = len(l.line)
	return rest
}

// stamp parses the time at l.at, writes it as a member and moves past it. classic also allows the
// old form without a year, which then gets the year nearest to the date of the file. The fault
// says that there is no such time.
func (l *syslog) stamp(classic bool) (f fault) {
	begin := l.at
	zone := cmp.Or(l.s.opt.Zone, time.Local)
	var t time.Time
	var ok bool
	if classic {
		t, ok = classicTime(l.line[begin:])
	}
	if ok {
		l.at = min(len(l.line), begin+len(time.Stamp)+1)
		if t, ok = inYear(t, zone, l.s.stamp.Dated); !ok {
			return malformed(begin, "no year has this time, or the file has no date to tell it")
		}
	} else if t, ok = isoTime(l.word(), zone); !ok || t.Year() < 1 {
		return malformed(begin, "no time such as Mar  1 12:00:00 or 2026-03-01T12:00:00+01:00")
	}
	l.begin(`"time":"`)
	l.dst = append(t.AppendFormat(l.dst, time.RFC3339Nano), '"')
	return fault{}
}

// classicTime parses a time such as Mar  1 12:00:00 at the beginning of text, followed by a space
// or by nothing. The year of the result is a leap year, so that every day exists in it; the zone
// is UTC.
func classicTime(text []byte) (t time.Time, ok bool) {
	const like = "xxx x0 00:00:00"
	if !isLike(text, like) || len(text) > len(like) && text[len(like)] != ' ' {
		return t, false
	}
	month, day := monthOf(text[:3]), int(text[5]-'0')
	switch {
	case isDigit(text[4]):
		day = two(text[4:])
	case text[4] != ' ':
		return t, false
	}
	const leap = 2000
	hour, minute, second := two(text[7:]), two(text[10:]), two(text[13:])
	if month == 0 || day < 1 || day > daysOf(month, leap) || hour > 23 || minute > 59 || second > 59 {
		return t, false
	}
	return time.Date(leap, time.Month(month), day, hour, minute, second, 0, time.UTC), true
}

// classic reads what follows the priority in RFC 3164 (time, host, app and pid) and writes it as
// members. The message begins at l.at then. Without an app and a colon, all after the host is the
// message.
func (l *syslog) classic() (f fault) {
	if f = l.stamp(true); f.text != "" {
		return f
	}
	begin := l.at
	host := l.word()
	if len(host) == 0 {
		return malformed(min(begin, len(l.line)), "no host behind the time")
	}
	l.text(`"host":"`, host)
	rest := l.line[l.at:]
	n := bytes.IndexAny(rest, ": []")
	if n <= 0 {
		return fault{}
	}
	app, pid := rest[:n], []byte(nil)
	if rest[n] == '[' {
		if digits := digitsOf(rest[n+1:]); digits > 0 && digits <= mostDigits && bytes.HasPrefix(rest[n+1+digits:], []byte{']'}) {
			pid = rest[n+1 : n+1+digits]
			n += digits + 2
		}
	}
	if n == len(rest) || rest[n] != ':' || n+1 < len(rest) && rest[n+1] != ' ' {
		return fault{}
	}
	l.text(`"app":"`, app)
	if pid != nil {
		l.number(`"pid":`, pid)
	}
	l.at = min(len(l.line), l.at+n+2)
	return fault{}
}

// modern reads what follows the priority in RFC 5424 (version, time, host, app, procid, msgid and
// structured data) and writes it as members. The message begins at l.at then. The fault says
// which part is missing.
func (l *syslog) modern() (f fault) {
	if l.word(); bytes.HasPrefix(l.line[l.at:], []byte("- ")) {
		l.at += 2
	} else if f = l.stamp(false); f.text != "" {
		return f
	}
	for _, name := range []string{`"host":"`, `"app":"`, `"procid":"`, `"msgid":"`} {
		begin := l.at
		w := l.word()
		switch {
		case len(w) == 0 || l.at == len(l.line):
			return malformed(min(begin, len(l.line)), "no host, app, process, message id and data behind the time")
		case name == `"procid":"` && len(w) <= mostDigits && digitsOf(w) == len(w):
			l.number(`"pid":`, w)
		default:
			l.some(name, w)
		}
	}
	if f = l.data(); f.text != "" {
		return f
	}
	if l.at < len(l.line) && l.line[l.at] != ' ' {
		return unexpected(l.at, "behind the structured data")
	}
	l.at = min(len(l.line), l.at+1)
	if bytes.HasPrefix(l.line[l.at:], []byte("\xEF\xBB\xBF")) { // which says that it is UTF-8
		l.at += 3
	}
	return fault{}
}

// data reads the structured data at l.at, [id name="value" ...] or "-" for none, and writes it as
// the member data: an object with an object for each id. l.at is at the end of the data then.
func (l *syslog) data() (f fault) {
	begin := l.at
	if l.line[begin] == '-' {
		l.at++
		return fault{}
	}
	l.begin(`"data":{`)
	ids := &l.s.ids
	ids.reset()
	for l.at < len(l.line) && l.line[l.at] == '[' {
		l.at++
		n := bytes.IndexAny(l.line[l.at:], " ]=\"")
		if n <= 0 || l.line[l.at+n] != ' ' && l.line[l.at+n] != ']' {
			return malformed(l.at, "no name of structured data")
		}
		l.name(ids, l.line[l.at:l.at+n])
		l.dst = append(l.dst, '{')
		l.at += n
		if f = l.params(); f.text != "" {
			return f
		}
		l.dst = append(l.dst, '}')
	}
	if l.at == begin {
		return malformed(begin, "no structured data in brackets, nor -")
	}
	l.dst = append(l.dst, '}')
	return fault{}
}

// params reads the pairs name="value" of one element of structured data, from l.at to the closing
// bracket, moves past that, and writes the pairs as members.
func (l *syslog) params() (f fault) {
	names := &l.s.keys
	names.reset()
	for {
		begin := l.at
		if begin < len(l.line) && l.line[begin] == ']' {
			l.at++
			return fault{}
		}
		rest := l.line[begin:]
		n := bytes.IndexByte(rest, '=')
		if n < 2 || rest[0] != ' ' || bytes.ContainsAny(rest[1:n], " ]\"") {
			return malformed(min(begin, len(l.line)), "no name=\"value\" in the structured data, nor its end")
		}
		end := quoted(l.line, begin+n+1)
		if end < 0 {
			return malformed(min(begin+n+1, len(l.line)), "no value in quotes in the structured data")
		}
		l.name(names, rest[1:n])
		l.dst = append(l.dst, '"')
		l.value(l.line[begin+n+2 : end-1])
		l.dst = append(l.dst, '"')
		l.at = end
	}
}

// name writes the name of a member of the structured data, as appendName does. names has the names
// that were there before.
func (l *syslog) name(names *keys, text []byte) {
	var bad bool
	l.dst, bad = names.appendName(l.dst, text)
	l.lossy = l.lossy || bad
}

// value writes the value of a parameter of structured data, escaped for JSON. text may have a
// backslash before a quote, a closing bracket or a backslash, which is removed; any other
// backslash is a part of the value.
func (l *syslog) value(text []byte) {
	for {
		n := bytes.IndexByte(text, '\\')
		for n >= 0 && n+1 < len(text) && text[n+1] != '"' && text[n+1] != '\\' && text[n+1] != ']' {
			next := bytes.IndexByte(text[n+1:], '\\')
			if next < 0 {
				n = -1
				break
			}
			n += 1 + next
		}
		part := text
		if n >= 0 && n+1 < len(text) {
			part = text[:n]
		}
		var bad bool
		l.dst, bad = appendString(l.dst, part)
		l.lossy = l.lossy || bad
		if len(part) == len(text) {
			return
		}
		l.dst, _ = appendString(l.dst, text[n+1:n+2])
		text = text[n+2:]
	}
}

var syslogColumns = []Column{
	{"time", "datetime"}, {"host", "string"}, {"app", "string"}, {"pid", "long"}, {"facility", "long"}, {"severity", "long"}, {"message", "string"},
}
