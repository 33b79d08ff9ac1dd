package format

import (
	"bytes"
	"strconv"
)

// Logfmt: each key=value is a member, in the order of the line. Values are
// strings, also numbers; a key by itself is true, key= is the empty string. A
// value in double quotes may hold white space, and the escapes that JSON has;
// another backslash is a backslash. A key that comes again is told by a number:
// key, key_2, key_3. A line that is no logfmt (it has no key=value, a key with a
// quote in it, a quote that is not closed, or text behind one that is) becomes
// {"message":"..."}, so that nothing of it is lost.

// fewKeys is how many keys are compared one by one.
const fewKeys = 32

// keys are the names of the members of one record, as they are in JSON.
type keys struct {
	all   []int          // where in the object the names are: start and end, in turn
	index map[string]int // of many names: the number that the next of the name tries
}

func (k *keys) reset() {
	k.all = k.all[:0]
	clear(k.index)
}

func (k *keys) many() bool { return len(k.all) > 2*fewKeys }

// has reports whether the object dst has a member with the name dst[from:] already, of those that
// were added to k.
func (k *keys) has(dst []byte, from int) bool {
	name := dst[from:]
	if k.many() {
		_, taken := k.index[string(name)]
		return taken
	}
	for i := 0; i < len(k.all); i += 2 {
		if bytes.Equal(dst[k.all[i]:k.all[i+1]], name) {
			return true
		}
	}
	return false
}

// add adds the name dst[from:] of a member to the names of the record. From more than fewKeys
// names on they are also in a map, with the number to try if the name comes again.
func (k *keys) add(dst []byte, from int) {
	was := k.many()
	k.all = append(k.all, from, len(dst))
	first := len(k.all) - 2
	switch {
	case !k.many():
		return
	case !was:
		first = 0
	}
	if k.index == nil {
		k.index = make(map[string]int)
	}
	for i := first; i < len(k.all); i += 2 {
		k.index[string(dst[k.all[i]:k.all[i+1]])] = 2
	}
}

// number makes the name dst[from:], which another member has, unique in the record: it appends
// _2, _3 and so on, the first that is free.
func (k *keys) number(dst []byte, from int) []byte {
	end, n := len(dst), 2
	if k.many() {
		n = k.index[string(dst[from:])]
	}
	for {
		dst = strconv.AppendInt(append(dst[:end], '_'), int64(n), 10)
		if n++; !k.has(dst, from) {
			break
		}
	}
	if k.many() {
		k.index[string(dst[from:end])] = n
	}
	return dst
}

// appendPairs appends the JSON object of a line of logfmt (key=value pairs). lossy says that
// invalid UTF-8 was replaced. If the line is not logfmt, it returns false and dst as it was.
func (s *Scanner) appendPairs(dst, line []byte) (_ []byte, lossy, ok bool) {
	s.keys.reset()
	out, pairs := append(dst, '{'), 0
	for {
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 {
			return append(out, '}'), lossy, pairs > 0
		}
		n := keyLen(line)
		if n == 0 || n < len(line) && line[n] == '"' {
			return dst, false, false
		}
		var bad bool
		out, bad = s.keys.appendName(out, line[:n])
		lossy = lossy || bad
		if line = line[n:]; len(line) == 0 || line[0] != '=' {
			out = append(out, "true"...)
			continue
		}
		pairs++
		n = valueLen(line[1:])
		if n < 0 {
			return dst, false, false
		}
		out, bad = appendValue(out, line[1:1+n])
		lossy, line = lossy || bad, line[1+n:]
	}
}

// keyLen is the length of the key that line begins with.
func keyLen(line []byte) int {
	for i, c := range line {
		if c == '=' || c == '"' || c == ' ' || c == '\t' {
			return i
		}
	}
	return len(line)
}

// valueLen returns the length of the value that line begins with, quotes included; -1: its quote
// is not closed, or something other than white space follows the closing quote.
func valueLen(line []byte) int {
	if len(line) == 0 || line[0] != '"' {
		if n := bytes.IndexAny(line, " \t"); n >= 0 {
			return n
		}
		return len(line)
	}
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			if i++; i < len(line) && line[i] != ' ' && line[i] != '\t' {
				return -1
			}
			return i
		}
	}
	return -1
}

// appendName appends a name, quoted for JSON, and a colon, after a comma if the record has other
// members. If it has a member of this name already, the name gets a number. lossy says that
// invalid UTF-8 was replaced.
func (k *keys) appendName(dst, name []byte) (_ []byte, lossy bool) {
	if len(k.all) > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	from := len(dst)
	dst, lossy = appendString(dst, name)
	if k.has(dst, from) {
		dst = k.number(dst, from)
	}
	k.add(dst, from)
	return append(dst, '"', ':'), lossy
}

// appendValue appends a logfmt value as a JSON string. value is as in the line: with its quotes,
// which valueLen has checked, or without. Escapes that JSON has are kept; any other backslash is
// doubled.
func appendValue(dst, value []byte) (_ []byte, lossy bool) {
	dst = append(dst, '"')
	if len(value) == 0 || value[0] != '"' {
		dst, lossy = appendString(dst, value)
		return append(dst, '"'), lossy
	}
	value = value[1 : len(value)-1]
	for {
		n := bytes.IndexByte(value, '\\')
		if n < 0 {
			n = len(value)
		}
		var bad bool
		dst, bad = appendString(dst, value[:n])
		if lossy, value = lossy || bad, value[n:]; len(value) == 0 {
			return append(dst, '"'), lossy
		}
		n = behindEscape(value, 0)
		if n < 0 {
			dst, value = append(dst, `\\`...), value[1:]
			continue
		}
		dst, value = append(dst, value[:n]...), value[n:]
	}
}
