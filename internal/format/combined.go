package format

import (
	"bytes"
	"strings"
)

// Combined: the access logs of nginx and Apache, in the formats common and
// combined:
//
//	[vhost:port ]remote_addr ident user [time] "request" status bytes[ "referer" "user_agent"[ more]]
//
// Each part is a member; a "-" stands for none, and has none. Status and bytes
// are numbers, the time is in RFC 3339. A request of three parts becomes method,
// path and protocol, another is a member as it is. One more string in quotes is
// forwarded_for, all else behind is extra. What the server has escaped within
// quotes stays as it wrote it. A name before the address is a vhost where it has
// a port and ident is "-"; a user may hold spaces, but no bracket.

// mostDigits is how many digits a number may have: a long holds them.
const mostDigits = 18

// appendCombined appends the JSON object of a line of an access log in the format combined or
// common. If the line has neither form, it returns a fault and dst as it was. lossy says that a
// value was not UTF-8.
func appendCombined(dst, line []byte) (_ []byte, lossy bool, f fault) {
	o := object{dst: append(dst, '{')}
	at, f := o.client(line)
	if f.text != "" {
		return dst, false, f
	}
	if !o.accessTime(line[at:]) {
		return dst, false, malformed(at, "no time such as [01/Mar/2026:12:00:00 +0100]")
	}
	at += accessTimeLen
	end := quoted(line, at)
	if end < 0 {
		return dst, false, malformed(min(at, len(line)), "no request in quotes behind the time")
	}
	o.request(line[at+1 : end-1])
	at = end + 1
	if at+3 > len(line) || line[end] != ' ' || !isDigit(line[at]) || !isDigit(line[at+1]) || !isDigit(line[at+2]) {
		return dst, false, malformed(min(end, len(line)), "no status of three digits behind the request")
	}
	o.number(`"status":`, line[at:at+3])
	at += 3
	if at == len(line) || line[at] != ' ' {
		return dst, false, malformed(at, "no space behind the status")
	}
	at++
	n := 0
	for at+n < len(line) && isDigit(line[at+n]) {
		n++
	}
	switch {
	case n > mostDigits:
		return dst, false, malformed(at, "a number of bytes that no long holds")
	case n > 0:
		o.number(`"bytes":`, line[at:at+n])
	case at == len(line) || line[at] != '-':
		return dst, false, malformed(at, "no number of bytes behind the status")
	default:
		n = 1
	}
	if at += n; at < len(line) && line[at] != ' ' {
		return dst, false, unexpected(at, "behind the number of bytes")
	}
	o.agent(line[at:])
	o.dst = append(o.dst, '}')
	return o.dst, o.lossy, fault{}
}

// client writes the address, identity and user at the beginning of an access log line, and
// returns the index at which the time begins, or why the line does not begin so. If a host with a
// port precedes them, that is written as vhost.
func (o *object) client(line []byte) (at int, f fault) {
	const none = "no address, identity and user before a time in brackets"
	first := bytes.IndexByte(line, ' ')
	if first <= 0 {
		return 0, malformed(0, none)
	}
	second := bytes.IndexByte(line[first+1:], ' ')
	if second <= 0 {
		return 0, malformed(first, none)
	}
	second += first + 1
	end := bytes.IndexByte(line[second:], '[') + second - 1
	if end <= second+1 || line[end] != ' ' {
		return 0, malformed(second, none)
	}
	addr, ident, user := line[:first], line[first+1:second], line[second+1:end]
	if string(ident) != "-" && bytes.HasPrefix(user, []byte("- ")) && len(user) > 2 && isHostPort(addr) {
		o.text(`"vhost":"`, addr)
		addr, ident, user = ident, user[:1], user[2:]
	}
	o.text(`"remote_addr":"`, addr)
	o.some(`"ident":"`, ident)
	o.some(`"user":"`, user)
	return end + 1, fault{}
}

// isHostPort reports whether text is a name with a port, and not an IPv6 address.
func isHostPort(text []byte) bool {
	host, port, found := bytes.Cut(text, []byte{':'})
	if !found || len(host) == 0 || len(port) == 0 {
		return false
	}
	for _, c := range port {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// accessTimeLen is the length of [01/Mar/2026:12:00:00 +0100] and a space.
const accessTimeLen = 29

// accessTime writes the time at the beginning of text, such as [01/Mar/2026:12:00:00 +0100], as a
// member in RFC 3339. It returns false, and writes nothing, if there is no valid time.
func (o *object) accessTime(text []byte) bool {
	const like = "[00/xxx/0000:00:00:00 x0000] "
	if !isLike(text, like) {
		return false
	}
	month := monthOf(text[4:7])
	sign := text[22]
	day, year := two(text[1:]), 100*two(text[8:])+two(text[10:])
	if month == 0 || day < 1 || day > daysOf(month, year) || sign != '+' && sign != '-' ||
		two(text[13:]) > 23 || two(text[16:]) > 59 || two(text[19:]) > 59 || two(text[23:]) > 23 || two(text[25:]) > 59 {
		return false
	}
	o.begin(`"time":"`)
	o.dst = append(o.dst, text[8], text[9], text[10], text[11], '-', byte('0'+month/10), byte('0'+month%10), '-', text[1], text[2], 'T',
		text[13], text[14], ':', text[16], text[17], ':', text[19], text[20], sign, text[23], text[24], ':', text[25], text[26], '"')
	return true
}

// isLike reports whether text begins as like does, where 0 stands for any digit, and x for anything.
func isLike(text []byte, like string) bool {
	if len(text) < len(like) {
		return false
	}
	for i := range len(like) {
		switch c := like[i]; {
		case c == '0' && isDigit(text[i]), c == text[i], c == 'x':
		default:
			return false
		}
	}
	return true
}

// two is the number of two digits that text begins with.
func two(text []byte) int { return int(text[0]-'0')*10 + int(text[1]-'0') }

// monthOf returns the number of the month with these three letters; 0: there is none.
func monthOf(name []byte) int {
	const months = "JanFebMarAprMayJunJulAugSepOctNovDec"
	if i := strings.Index(months, string(name)); i >= 0 && i%3 == 0 {
		return i/3 + 1
	}
	return 0
}

// daysOf returns the number of days of a month.
func daysOf(month, year int) int {
	if month == 2 && (year%4 != 0 || year%100 == 0 && year%400 != 0) {
		return 28
	}
	return [...]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
}

// quoted returns the index after the string in double quotes that begins at line[i]; -1: no
// string begins there, or it is not closed. A backslash escapes the next character.
func quoted(line []byte, i int) int {
	if i >= len(line) || line[i] != '"' {
		return -1
	}
	for i++; ; {
		n := bytes.IndexByte(line[i:], '"')
		if n < 0 {
			return -1
		}
		if slash := bytes.IndexByte(line[i:i+n], '\\'); slash < 0 {
			return i + n + 1
		} else if i += slash + 2; i > len(line) {
			return -1
		}
	}
}

// request writes the request line of an access log as the members method, path and protocol, or
// as the one member request if it does not have that form.
func (o *object) request(text []byte) {
	first, last := bytes.IndexByte(text, ' '), bytes.LastIndexByte(text, ' ')
	if first <= 0 || last-first < 2 || !bytes.HasPrefix(text[last+1:], []byte("HTTP/")) || len(text)-last == len(" HTTP/") {
		o.text(`"request":"`, text)
		return
	}
	o.text(`"method":"`, text[:first])
	o.text(`"path":"`, text[first+1:last])
	o.text(`"protocol":"`, text[last+1:])
}

// agent writes what follows the number of bytes in an access log line: referer, user_agent and
// forwarded_for if they are there in quotes, and the member extra for anything else. text begins
// with a space, or is empty.
func (o *object) agent(text []byte) {
	if len(text) < 2 {
		return
	}
	referer := quoted(text, 1)
	if referer > 0 && referer < len(text) && text[referer] == ' ' {
		if agent := quoted(text, referer+1); agent > 0 && (agent == len(text) || text[agent] == ' ') {
			o.some(`"referer":"`, text[2:referer-1])
			o.some(`"user_agent":"`, text[referer+2:agent-1])
			text = text[agent:]
			if n := quoted(text, 1); n > 0 && n == len(text) {
				o.some(`"forwarded_for":"`, text[2:n-1])
				return
			}
		}
	}
	if len(text) > 1 {
		o.text(`"extra":"`, text[1:])
	}
}
