package format

import (
	"bytes"
	"slices"

	"kusto-agent/internal/record"
)

// Parse says how lines are turned into JSON objects, one in a line. What is text
// in a file is a string, but for the numbers that a way of parsing knows.
//
// Text: {"message":"..."}, of a line or, with Multiline, of an event; line ends
// within are newlines. Logfmt: see logfmt.go. Docker and CRI: see container.go.
// Combined: see combined.go. Regex: see regex.go. Syslog:
// see syslog.go. What is inside the messages of containers: see inner.go.
//
// An object is made of the bytes of its lines, the options and the stamp of its
// file alone, so that it can be made again.
type Parse uint8

// The ways lines are parsed.
const (
	ParseNone Parse = iota
	ParseText
	ParseLogfmt
	ParseDocker
	ParseCRI
	ParseCombined
	ParseRegex
	ParseSyslog
	ParseJSON // of messages of containers alone: see inner.go
)

var parses = []string{"none", "text", "logfmt", "docker", "cri", "combined", "regex", "syslog", "json"}

// Parses are the names of the ways lines are parsed, in the configuration.
func Parses() []string { return slices.Clone(parses[:ParseJSON]) }

// ParseOf finds a way to parse lines by its name in the configuration; false: none has this name.
func ParseOf(name string) (Parse, bool) { return wordOf[Parse](parses[:ParseJSON], name) }

func (p Parse) String() string { return parses[p] }

// Joins reports whether a record can be several lines, of which the last need
// not be seen: SetQuiet then says when it is no longer waited for.
func (o *Options) Joins() bool {
	return o.Parse.Container() || o.Multiline != nil
}

// Room returns the largest MaxRecord with which size bytes of data are always enough for a
// record.
func (o *Options) Room(size int) int {
	size = size/o.Encoding.unit() - 2 // a line end
	if o.Multiline != nil {
		size -= 2
		size -= min(mostLook, size/2) // the next line has to be seen as far as its beginning is looked at
	}
	return size
}

// SetQuiet says whether what is scanned next reaches to the end of a file that
// is not waited for any longer, although it may grow: what Options.Joins is then
// whole at its last whole line. A line without its end is still held.
func (s *Scanner) SetQuiet(quiet bool) { s.quiet = quiet }

// join extends k, the cut (kind and length) of one line at the beginning of data, to all lines of
// its record: of a message in a container log, or of an event with Options.Multiline. last says
// that nothing follows data.
func (s *Scanner) join(k *cut, data []byte, last bool) {
	if last && len(data) < s.opt.MaxRecord { // drop NUL bytes at its end
		data = data[:max(k.n, len(bytes.TrimRight(data, "\x00")))]
	}
	switch {
	case s.opt.Parse.Container():
		if k.kind == sound {
			s.assemble(k, data, last)
		}
	case s.opt.Multiline == nil:
	case k.kind == sound || k.kind == unsound:
		s.gather(k, data, last)
	case k.kind == endless: // SkipLong needs the state of the event
		k.lead = int(s.opt.Multiline.first(data[:min(len(data), s.look())]))
	}
}

// shape converts the record at c.Consumed, which k describes, to JSON objects and appends them to
// c.Body, or filters, rejects or drops it. data begins at offset at of the file. It returns false
// if the record has to wait for the next chunk.
func (s *Scanner) shape(c *Chunk, data []byte, at int64, k cut) bool {
	from, to := s.pos(c.Consumed), s.pos(c.Consumed+k.n)
	if !c.room(from) || len(c.Body) >= copiedRun {
		return false
	}
	c.detach()
	lines, before := data[c.Consumed:c.Consumed+k.n], len(c.Body)
	if s.misfits, s.dropped = 0, 0; s.editor != nil {
		s.acted, s.closed = s.acted[:0], false
	}
	body, lossy := s.appendObjects(c.Body, lines, k, at, c.Consumed)
	c.own = body[:before]
	records := max(k.records, 1) - len(s.left) - s.dropped
	switch {
	case records == 0: // all its objects are filtered or dropped
		s.filter(c)
		c.Unmatched += s.dropped
		return true
	case s.closed: // rules could not read one of its objects
		s.fault = unreadable
		return s.reject(c, data[c.Consumed:], k)
	case s.misfits > 0 && s.opt.OnError != SendRaw:
		return s.setAside(c, data[c.Consumed:], k)
	case s.opt.MaxBody <= 0 || len(body) <= s.opt.MaxBody:
	case c.Records > 0:
		return false // too long together with the records before; alone it may fit
	default:
		s.fault = fault{reason: record.Grown, text: "as JSON it is longer than", limit: s.opt.MaxBody}
		return s.reject(c, data[c.Consumed:], k)
	}
	c.Body, c.own = body, body
	c.Records += records
	for range records - 1 { // 0: the next record is of the same lines
		s.length(c, before, 0)
	}
	s.length(c, before, to-from)
	c.piece(from, to, records)
	s.filter(c)
	c.Unmatched += s.dropped
	s.countActed(c)
	c.InvalidUTF8 += lossy
	c.Misfits += s.misfits
	return true
}

// appendObjects appends the objects that parsing makes of lines, the lines of the record k, to
// body, each with the fields of the configuration and a newline, except for those that rules
// filter or on_error drops. lossy is how many of them had invalid characters. at is the offset in
// the file of the scanned text, place the index of the lines in that text.
func (s *Scanner) appendObjects(body, lines []byte, k cut, at int64, place int) (_ []byte, lossy int) {
	s.left = s.left[:0]
	for i := range max(k.records, 1) {
		bad := false
		from, misfits := len(body), s.misfits
		if s.editor != nil {
			s.untaken = k.records > 0 && s.unit.messages[i].to < 0
		}
		if s.opt.Fields == nil {
			body, bad = s.appendObject(body, lines, k, i)
			if s.judge != nil && s.leavesOutObject(lines, body[from:]) || k.records > 0 && s.dropsMessage(misfits) {
				body = body[:from]
				s.misfits = misfits
				continue
			}
			if s.editor != nil && len(body) > from {
				body = append(body[:from], s.change(body[from:])...)
			}
		} else {
			s.shaped, bad = s.appendObject(s.shaped[:0], lines, k, i)
			if s.judge != nil && s.leavesOutObject(lines, s.shaped) || k.records > 0 && s.dropsMessage(misfits) {
				s.misfits = misfits
				continue
			}
			object := s.shaped
			if s.editor != nil && len(object) > 0 {
				object = s.change(object)
			}
			s.stamp.Offset = max(at+int64(s.pos(place+s.begins(k, i))), 0)
			body = s.opt.Fields.Splice(body, object, &s.stamp)
		}
		body = append(body, '\n')
		if bad {
			lossy++
		}
	}
	if lossy == 0 && s.replaced(lines, place) {
		lossy = 1
	}
	return body, lossy
}

// begins returns the index, in the lines of the record k, at which those of its object i begin.
// Only lines of a container log that are read together (k.records > 0) become several objects.
func (s *Scanner) begins(k cut, i int) int {
	if k.records == 0 {
		return 0
	}
	return s.unit.messages[i].at
}

// appendObject appends object i of those that parsing makes of lines, the lines of the record k,
// to dst. There are several only in container logs (k.records > 0). lossy says that invalid
// characters were replaced.
func (s *Scanner) appendObject(dst, lines []byte, k cut, i int) (_ []byte, lossy bool) {
	if k.records > 0 {
		return s.appendMessage(dst, &s.unit.messages[i])
	}
	text := withoutEnd(lines)
	if len(text) == len(lines) {
		text = bytes.TrimRight(text, "\r") // of a line end that has lost its LF
	}
	if s.opt.Multiline != nil && bytes.Contains(text, []byte("\r\n")) {
		s.joined = appendBareLines(s.joined[:0], text)
		text = s.joined
	}
	return s.take(dst, text, s.opt.Parse)
}

// take parses text as how says, and appends the resulting JSON object to dst. Text that does not
// have that form is handled as on_error says; then made may be dst as it was. lossy says that
// invalid characters were replaced.
func (s *Scanner) take(dst, text []byte, how Parse) (made []byte, lossy bool) {
	var why fault
	switch how {
	case ParseLogfmt:
		if pairs, lossy, ok := s.appendPairs(dst, text); ok {
			return pairs, lossy
		}
		s.untaken = true // sent as a message; rules may have to withhold it
	case ParseSyslog:
		made, lossy, why = s.appendSyslog(dst, text)
	case ParseCombined:
		made, lossy, why = appendCombined(dst, text)
	case ParseRegex:
		made, lossy, why = s.appendMatch(dst, text)
	case ParseJSON:
		made, lossy, why = s.appendJSON(dst, text)
	}
	switch {
	case why.text != "":
		return s.unmatched(dst, text, why)
	case made != nil:
		return made, lossy
	}
	dst = append(dst, `{"message":"`...)
	dst, lossy = appendString(dst, text)
	return append(dst, `"}`...), lossy
}

// appendBareLines appends lines without the CR of each line end.
func appendBareLines(dst, lines []byte) []byte {
	for {
		i := bytes.Index(lines, []byte("\r\n"))
		if i < 0 {
			return append(dst, lines...)
		}
		dst = append(append(dst, lines[:i]...), '\n')
		lines = lines[i+2:]
	}
}
