package rules

import (
	"bytes"

	"kusto-agent/internal/jsontext"
)

// A path leads from an object to each member of its name, and on where that is an
// object; an array stands for each of its elements. A name may hold dots: then it is
// as many steps of the path. Of a name that is there twice both count. What is no
// JSON is followed as far as it goes. Comments and single quotes are taken, as the
// service does.

// mostDepth is how deep a path is followed.
const mostDepth = 512

// mayHold is a fast test: false means that the condition on a member holds for no value of the
// object. It looks for the last name of the path anywhere in the object, and at the value after
// it.
func (j *Judge) mayHold(c *condition, object []byte) bool {
	switch {
	case c.name == nil:
		return true
	case j.looks && j.escaped(), !j.looks && j.set.hidden.index(object) >= 0:
		return true // the name may be written with an escape
	}
	return j.indexHeld(c, object, true) >= 0
}

// indexHeld searches b for the last name of the condition's path, and returns the index of the first
// one whose value may fulfil the condition. -1 means that the condition certainly does not hold in b.
// whole says that b is a whole record; otherwise a name whose value continues after b counts too.
func (j *Judge) indexHeld(c *condition, b []byte, whole bool) int {
	for i := 0; ; i++ {
		n := c.name.index(b[i:])
		if n < 0 {
			return -1
		}
		i += n
		if j.mayHoldAt(c, b, i+len(c.name.text), whole) {
			return i
		}
	}
}

// mayHoldAt reports whether the condition may hold for the value of the member whose name ends before
// the quote at i. It is false if no quote and colon follow, or if the value certainly does not fulfil
// the condition. whole says that b is a whole record; otherwise it is true if the value continues after
// b.
func (j *Judge) mayHoldAt(c *condition, b []byte, i int, whole bool) bool {
	if i == len(b) {
		return !whole
	}
	if b[i] != '"' && b[i] != '\'' {
		return false
	}
	ends := func() bool { return i == len(b) || !whole && i == len(b)-1 && b[i] == '/' } // of a comment
	if i = jsontext.SkipSpace(b, i+1); ends() {
		return !whole
	}
	if b[i] != ':' {
		return false
	}
	if i = jsontext.SkipSpace(b, i+1); ends() {
		return !whole
	}
	switch b[i] {
	case '[':
		return true
	case '{':
		return false
	}
	end := jsontext.ValueEnd(b, i)
	if end == len(b) && !whole {
		return true
	}
	text, ok := j.textOf(b[i:end])
	return ok && c.of(text)
}

// textOf returns the text with which a JSON value is compared: the content of a string without
// escapes, or a number or truth value as it is written. ok is false for objects, arrays and null.
// The text is valid until the next call.
func (j *Judge) textOf(value []byte) (text []byte, ok bool) {
	if len(value) == 0 {
		return nil, false
	}
	switch value[0] {
	case '{', '[':
		return nil, false
	case '"', '\'':
		if len(value) < 2 || value[len(value)-1] != value[0] {
			return nil, false
		}
		return plain(&j.scratch, value[1:len(value)-1]), true
	}
	return value, string(value) != "null"
}

// anyAt reports whether the condition holds for a value at the end of its path in the JSON
// object; j.value is then the text of that value. An array on the path stands for each of its
// elements.
func (j *Judge) anyAt(c *condition, object []byte) bool {
	i := jsontext.SkipSpace(object, 0)
	if i == len(object) || object[i] != '{' {
		return false
	}
	_, found := j.follow(c, object, i, c.member, 0)
	return found
}

// follow looks for a value that fulfils the condition c at the end of its path. i is the index of
// a value on the way, depth how deeply it is nested, rest the part of the path after it. It
// returns the index after the value, or len(b) if the value has no end; found says that the
// condition holds, for the value with the text j.value.
func (j *Judge) follow(c *condition, b []byte, i int, rest string, depth int) (end int, found bool) {
	if depth > mostDepth {
		return len(b), false
	}
	switch {
	case b[i] == '[':
		return j.followElements(c, b, i+1, rest, depth)
	case rest == "":
		end = jsontext.ValueEnd(b, i)
		text, ok := j.textOf(b[i:end])
		j.value = text
		return end, ok && c.of(text)
	case b[i] != '{':
		return jsontext.ValueEnd(b, i), false
	}
	for i++; ; {
		if i = jsontext.SkipSpace(b, i); i < len(b) && b[i] == ',' {
			i++
			continue
		}
		if i == len(b) || b[i] == '}' {
			return min(i+1, len(b)), false
		}
		if b[i] != '"' && b[i] != '\'' {
			return len(b), false
		}
		to := jsontext.ValueEnd(b, i)
		left, on := j.step(b[i:to], rest)
		if i = jsontext.SkipSpace(b, to); i == len(b) || b[i] != ':' {
			return len(b), false
		}
		if i = jsontext.SkipSpace(b, i+1); i == len(b) {
			return i, false
		}
		if !on {
			i = jsontext.ValueEnd(b, i)
		} else if i, found = j.follow(c, b, i, left, depth+1); found {
			return i, true
		}
	}
}

// followElements looks for a value that fulfils the condition c in the elements of the array
// whose bracket is before i; rest is the path from each element on, depth how deeply the array is
// nested. It returns the index after the array, or len(b) if the array has no end; found says
// that the condition holds for one of the elements.
func (j *Judge) followElements(c *condition, b []byte, i int, rest string, depth int) (end int, found bool) {
	for {
		if i = jsontext.SkipSpace(b, i); i < len(b) && b[i] == ',' {
			i++
			continue
		}
		if i == len(b) || b[i] == ']' {
			return min(i+1, len(b)), false
		}
		was := i
		if i, found = j.follow(c, b, i, rest, depth+1); found || i == was { // nothing read: no valid JSON
			return max(i, was), found
		}
	}
}

// step reports whether a quoted name is the next name of the path rest, and returns the rest of
// the path after it.
func (j *Judge) step(quoted []byte, rest string) (left string, on bool) {
	if len(quoted) < 2 {
		return "", false
	}
	name := plain(&j.name, quoted[1:len(quoted)-1])
	switch n := len(name); {
	case n > len(rest) || rest[:n] != string(name):
		return "", false
	case n == len(rest):
		return "", true
	default:
		return rest[n+1:], rest[n] == '.' && n+1 < len(rest)
	}
}

// plain returns the text that content, the content of a JSON string, stands for: content itself if
// it has no escape, else memory of room, valid until the next call with it.
func plain(room *[]byte, content []byte) []byte {
	if bytes.IndexByte(content, '\\') < 0 {
		return content
	}
	*room, _ = jsontext.AppendPlain((*room)[:0], content)
	return *room
}
