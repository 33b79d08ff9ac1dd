package format

import (
	"slices"
	"strconv"
)

// object is a JSON object that is being written, member by member. Names come
// as they are written, with their quotes, the colon and what begins the value.
type object struct {
	dst   []byte // begins with the brace
	more  bool   // there is a member
	lossy bool   // something in it was no character
}

// begin writes the beginning of a member, after a comma if it is not the first. name is as in the
// object, with its quotes and the colon, and with the quote that opens the value if that is a
// string.
func (o *object) begin(name string) {
	if o.more {
		o.dst = append(o.dst, ',')
	}
	o.more = true
	o.dst = append(o.dst, name...)
}

// text writes a member whose value is a string. name includes quotes, colon and the quote that
// opens the value; value is not escaped yet.
func (o *object) text(name string, value []byte) {
	o.begin(name)
	var bad bool
	o.dst, bad = appendString(o.dst, value)
	o.dst = append(o.dst, '"')
	o.lossy = o.lossy || bad
}

// some writes a member like text, unless the value is "-", which stands for none.
func (o *object) some(name string, value []byte) {
	if len(value) != 1 || value[0] != '-' {
		o.text(name, value)
	}
}

// number writes a member whose value is a number, given by its digits. name includes quotes and
// colon.
func (o *object) number(name string, digits []byte) {
	for len(digits) > 1 && digits[0] == '0' { // JSON does not allow leading zeros
		digits = digits[1:]
	}
	o.begin(name)
	o.dst = append(o.dst, digits...)
}

// OnError says what becomes of a record that is not as Parse says.
type OnError uint8

// What becomes of it.
const (
	SendRaw       OnError = iota // {"message":"...","parse_error":"..."} is sent
	ToQuarantine                 // it is rejected as malformed
	DropUnmatched                // it is filtered
)

var onErrors = []string{"raw", "quarantine", "drop"}

// OnErrorOf returns what the word in the configuration key on_error stands for; false: the word
// is not known.
func OnErrorOf(word string) (OnError, bool) { return wordOf[OnError](onErrors, word) }

// unmatched handles text that does not have the form that parse names, for the reason why. With
// on_error: raw, and always for a container message, it appends an object with the text and the
// reason to dst. Otherwise it returns dst as it was, and the caller drops or rejects the record.
func (s *Scanner) unmatched(dst, text []byte, why fault) (_ []byte, lossy bool) {
	s.misfits++
	said := why.explain(text)
	if s.fault = why; s.opt.Parse.Container() {
		s.fault = malformed(nowhere, "in the message: "+said)
	} else if s.opt.OnError != SendRaw {
		return dst, false
	}
	o := object{dst: append(dst, '{')}
	o.text(`"message":"`, text)
	s.untaken, s.misfit = true, said
	o.begin(`"parse_error":"`)
	o.dst, _ = appendString(o.dst, []byte(said))
	return append(o.dst, `"}`...), o.lossy
}

// setAside drops or rejects a record that does not have the form that parse names. It returns
// false if the chunk has no room, so that the record has to wait for the next one.
func (s *Scanner) setAside(c *Chunk, rest []byte, k cut) bool {
	if s.opt.OnError == DropUnmatched {
		c.Unmatched++
		return true
	}
	return s.reject(c, rest, k)
}

// dropsMessage reports whether the message of a container log that was just parsed is dropped,
// and counts it. It is dropped if it is not of the form that inner names and on_error says drop.
// misfits is the value of s.misfits before the message was parsed.
func (s *Scanner) dropsMessage(misfits int) bool {
	if s.opt.OnError != DropUnmatched || s.misfits == misfits {
		return false
	}
	s.dropped++
	return true
}

// Parsed reports whether p expects a form that a line may not have, so that Options.OnError
// applies.
func (p Parse) Parsed() bool { return p >= ParseCombined }

// Column is a member of the objects that a way of parsing makes.
type Column struct {
	Name string
	Type string // the type of a column of the service that holds it
}

var combinedColumns = []Column{
	{"remote_addr", "string"}, {"user", "string"}, {"time", "datetime"}, {"method", "string"}, {"path", "string"}, {"protocol", "string"},
	{"status", "long"}, {"bytes", "long"}, {"referer", "string"}, {"user_agent", "string"}, {"request", "string"},
}

// rawColumns are those of a record that is not as Parse says.
var rawColumns = []Column{{"message", "string"}, {"parse_error", "string"}}

// Columns returns the members of the JSON objects that parsing as combined, syslog or regex makes
// with these options, in order, also inside of container logs; nil for other ways to parse.
func (o *Options) Columns() []Column {
	var all []Column
	if o.Parse.Container() && o.Inner.Parsed() {
		return o.columnsOfContainer()
	}
	switch o.Parse {
	case ParseCombined:
		all = append(all, combinedColumns...)
	case ParseSyslog:
		all = append(all, syslogColumns...)
	case ParseRegex:
		all = append(all, o.Pattern.columns()...)
	default:
		return nil
	}
	if o.OnError == SendRaw {
		all = append(all, rawColumns...)
	}
	return all
}

// columnsOfContainer is Columns for container logs whose messages are parsed too. Members of a
// message with a name that the container uses get a number that no other member has, such as time_2.
func (o *Options) columnsOfContainer() []Column {
	all := []Column{{"time", "datetime"}, {"stream", "string"}}
	inner := Options{Parse: o.Inner, Pattern: o.Pattern, OnError: o.OnError}
	if o.Inner == ParseJSON && o.OnError == SendRaw {
		return append(all, rawColumns...)
	}
	columns := inner.Columns()
	for _, c := range columns {
		switch name := c.Name; name {
		case "time", "stream", "partial":
			isTaken := func(o Column) bool { return o.Name == c.Name }
			for n := 2; slices.ContainsFunc(columns, isTaken); n++ {
				c.Name = name + "_" + strconv.Itoa(n)
			}
		}
		all = append(all, c)
	}
	return all
}
