package rules

import (
	"bytes"
	"encoding/json"
	"slices"

	"kusto-agent/internal/jsontext"
)

// Editor changes records as the rules say, one after another. It keeps scratch memory,
// so that only one goroutine may use it at a time.
type Editor struct {
	set    *Set
	kind   Kind
	sep    byte
	digest digester
	acted  []bool // by the index of Set.Changes, in the last record

	out    []byte // the record as it becomes
	copied int    // how much of the record is in out, or left out
	places []int  // on the paths of the rules, level by level

	text    []byte // of a value
	content []byte // of a string as it becomes
	spare   []byte
	parts   []segment
	name    []byte

	columns     columns
	shifted     bool     // the row at hand; see isShifted
	bare        []byte   // the record without comments
	commentless bool     // records are to be so
	shaped      []byte   // the record as it becomes by rename, remove and add
	members     []member // of the objects at hand
	elsewhere   []int    // places as they are for other elements
	add         []op     // to the object at hand
}

// NewEditor returns an editor that changes records of a kind by the rules of s; sep is the
// delimiter between the fields of a Row. It is for one goroutine.
func NewEditor(s *Set, kind Kind, sep byte) *Editor {
	e := &Editor{set: s, kind: kind, sep: sep, acted: make([]bool, len(s.changes)), commentless: kind == Object && s.Members()}
	if s.key != nil {
		e.digest = newDigester(s.key)
	}
	return e
}

// Of returns rec, a record without its line end, as the rules change it: rec itself if no rule
// acts, else memory of the editor that is valid until the next call. A record of kind Object has
// to be a JSON object. ok is false if the record cannot be parsed; then no byte of it may be
// sent.
func (e *Editor) Of(rec []byte) (out []byte, ok bool) {
	clear(e.acted)
	if e.commentless {
		rec = e.dropComments(rec)
	}
	if out = rec; len(e.set.redact) > 0 {
		if out, ok = e.redact(rec); !ok {
			return nil, false
		}
	}
	if e.set.shape != nil {
		return e.reshape(out)
	}
	return out, true
}

// dropComments returns a JSON record without its comments, since they may contain what a rule
// about members hides: rec itself if it has none, else memory that is valid until the next call.
func (e *Editor) dropComments(rec []byte) []byte {
	if !mayComment(rec) {
		return rec
	}
	e.bare = e.bare[:0]
	copied := 0
	for i := 0; i < len(rec); {
		switch rec[i] {
		case '"', '\'':
			i = jsontext.StringEnd(rec, i)
			continue
		case '/':
			if end := jsontext.SkipSpace(rec, i); end > i {
				e.bare = append(append(e.bare, rec[copied:i]...), ' ')
				copied, i = end, end
				continue
			}
		}
		i++
	}
	if copied == 0 {
		return rec
	}
	e.acted[e.set.aboutMembers()] = true // the change is counted for the first such rule
	e.bare = append(e.bare, rec[copied:]...)
	return e.bare
}

// mayComment reports whether a record has a slash that could begin a comment.
func mayComment(rec []byte) bool {
	for {
		i := bytes.IndexByte(rec, '/') + 1
		if i == 0 || i == len(rec) {
			return false
		}
		if rec[i] == '/' || rec[i] == '*' {
			return true
		}
		rec = rec[i:]
	}
}

// Acted tells of each change of Set.Changes whether it acted on the last record. It is
// good until the next call.
func (e *Editor) Acted() []bool { return e.acted }

// redact returns rec as the redact rules change it: rec itself if none acts, else memory that is
// valid until the next call. ok is false if rec is a JSON record that cannot be parsed.
func (e *Editor) redact(rec []byte) (out []byte, ok bool) {
	if e.kind != Row && !e.mayRedact(rec) {
		return rec, true
	}
	e.out, e.copied = e.out[:0], 0
	switch e.kind {
	case Line:
		e.value(rec, 0, len(rec), valueText, nil)
	case Row:
		e.row(rec)
	default:
		e.places = append(e.places[:0], make([]int, len(e.set.redact))...) // on the path of each rule, at its beginning
		if !e.object(rec) {
			return nil, false
		}
	}
	if e.copied == 0 {
		return rec, true
	}
	e.out = append(e.out, rec[e.copied:]...)
	return e.out, true
}

// mayRedact is a fast test: false means that no redact rule can act on the record.
func (e *Editor) mayRedact(rec []byte) bool {
	escapes := e.kind != Line && bytes.IndexByte(rec, '\\') >= 0
	if escapes && bytes.Contains(rec, []byte(`\u`)) { // any character may be written so
		return true
	}
	for k := range e.set.redact {
		if e.set.redact[k].mayAct(rec, escapes) {
			return true
		}
	}
	return false
}

// replace appends the bytes with to the changed record in place of rec[from:to], after the bytes
// of rec before from that were not copied yet. Calls have to come in the order of the places in
// rec.
func (e *Editor) replace(rec []byte, from, to int, with ...byte) {
	e.out = append(append(e.out, rec[e.copied:from]...), with...)
	e.copied = to
}

// object redacts the values of the JSON object b, with white space and comments around it. It
// returns false if b is no valid object.
func (e *Editor) object(b []byte) bool {
	i := e.gap(b, 0)
	if i == len(b) || b[i] != '{' {
		return false
	}
	if i = e.node(b, i, 0, 0); i < 0 {
		return false
	}
	return e.gap(b, i) == len(b)
}

// gap returns the index after the white space and comments at i. A comment in which a rule about
// every value finds something is removed.
func (e *Editor) gap(b []byte, i int) int {
	if i < len(b) && b[i] > ' ' && b[i] != '/' {
		return i
	}
	end := jsontext.SkipSpace(b, i)
	if bytes.IndexByte(b[i:end], '/') < 0 {
		return end
	}
	for k := range e.set.redact {
		if r := &e.set.redact[k]; r.everywhere() {
			if e.parts = r.segments(e.parts[:0], b[i:end]); len(e.parts) > 0 {
				e.acted[k] = true
				e.replace(b, i, end, ' ')
				return end
			}
		}
	}
	return end
}

// node redacts the JSON value at i, and returns the index after it; -1: the value is not valid.
// e.places[level:] says how far the value is on the path of each rule, depth how deeply it is
// nested.
func (e *Editor) node(b []byte, i, level, depth int) int {
	if depth > mostDepth {
		return -1
	}
	switch b[i] {
	case '[':
		for i++; ; {
			if i = e.gap(b, i); i == len(b) {
				return -1
			}
			switch b[i] {
			case ']':
				return i + 1
			case ',':
				i++
				continue
			}
			if i = e.node(b, i, level, depth+1); i < 0 {
				return -1
			}
			if i = e.gap(b, i); i == len(b) || b[i] != ',' && b[i] != ']' {
				return -1
			}
		}
	case '{':
		return e.fields(b, i+1, level, depth)
	case '"', '\'':
		end := jsontext.StringEnd(b, i)
		if end-i < 2 || b[end-1] != b[i] {
			return -1
		}
		e.value(b, i, end, valueString, e.places[level:])
		return end
	}
	end := jsontext.ValueEnd(b, i)
	if string(b[i:end]) != "null" {
		e.value(b, i, end, valueBare, e.places[level:])
	}
	return end
}

// fields redacts the members of the object whose brace is before i, and returns the index after
// the object; -1: it is not valid. e.places[level:] says how far the object is on the path of
// each rule, depth how deeply it is nested.
func (e *Editor) fields(b []byte, i, level, depth int) int {
	n := len(e.set.redact)
	inner := len(e.places)
	e.places = append(e.places, e.places[level:level+n]...)
	defer func() { e.places = e.places[:inner] }()
	for {
		if i = e.gap(b, i); i == len(b) {
			return -1
		}
		switch b[i] {
		case '}':
			return i + 1
		case ',':
			i++
			continue
		case '"', '\'':
		default:
			return -1
		}
		end := jsontext.StringEnd(b, i)
		if end-i < 2 || b[end-1] != b[i] {
			return -1
		}
		name := plain(&e.name, b[i+1:end-1])
		alive := false
		for k := range e.set.redact {
			r := &e.set.redact[k]
			at := e.places[level+k]
			if at < len(r.member) {
				at = r.on(at, name)
			}
			e.places[inner+k] = at
			alive = alive || at != dead
		}
		e.value(b, i, end, valueName, e.places[level:])
		if i = e.gap(b, end); i == len(b) || b[i] != ':' {
			return -1
		}
		if i = e.gap(b, i+1); i == len(b) {
			return -1
		}
		if alive { // a rule may act within the value
			i = e.node(b, i, inner, depth+1)
		} else {
			i = jsontext.ValueEnd(b, i)
		}
		if i < 0 {
			return -1
		}
		if i = e.gap(b, i); i == len(b) || b[i] != ',' && b[i] != '}' {
			return -1
		}
	}
}

// How a value is written.
type written uint8

const (
	valueText   written = iota // as it is
	valueString                // in quotes, with escapes
	valueName                  // the same; places are those of the object that has it
	valueBare                  // a number or a truth value
)

// value applies the redact rules to the value b[from:to], which is written as how says (string,
// bare value, name or text). places has, for each rule, how far the value is on the path of the
// rule.
func (e *Editor) value(b []byte, from, to int, how written, places []int) {
	content := b[from:to]
	if how == valueString || how == valueName {
		content = b[from+1 : to-1]
	}
	var quote []byte // set once a number or truth value has become a text
	changed := false
	for k := range e.set.redact {
		r := &e.set.redact[k]
		switch {
		case r.everywhere():
		case how == valueText || places[k] != len(r.member): // not the rule's member
			continue
		}
		was := content
		if content = e.apply(r, content, how, quote != nil); bytes.Equal(was, content) {
			content = was
			continue
		}
		e.acted[k], changed = true, true
		// Unless a number becomes another number, the new value has to be a string.
		if how == valueBare && quote == nil && !(isNumber(b[from:to]) && isNumber(content)) {
			e.spare = appendEscaped(e.spare[:0], content)
			e.content, e.spare = e.spare, e.content
			content, quote = e.content, []byte{'"'}
		}
		if r.whole() {
			break // the value is now that of the rule: later rules do not act on it
		}
	}
	switch {
	case !changed:
	case how == valueString || how == valueName:
		e.replace(b, from+1, to-1, content...)
	default:
		e.replace(b, from, to, slices.Concat(quote, content, quote)...)
	}
}

// apply returns the content of a value after the rule r: the same slice if the rule does not act,
// else memory that the second next call uses again. how says how the value is written; quoted
// says that an earlier rule made a string of it.
func (e *Editor) apply(r *redaction, content []byte, how written, quoted bool) []byte {
	inString := quoted || how == valueString || how == valueName
	text := content
	if inString {
		text = plain(&e.text, content)
	}
	put := func(dst, part []byte) []byte {
		with := []byte(r.with)
		if r.hashed {
			with = e.digest.of(part)
		}
		if inString {
			return appendEscaped(dst, with)
		}
		return append(dst, with...)
	}
	switch {
	case len(text) == 0: // nothing is there
		return content
	case r.whole():
		e.spare = put(e.spare[:0], text)
	default:
		if e.parts = r.segments(e.parts[:0], text); len(e.parts) == 0 {
			return content
		}
		e.spare = e.spare[:0]
		at := 0 // index in content up to which it was copied
		walk := unescaper{content: content, plain: len(text) == len(content)}
		for _, s := range e.parts {
			from := walk.to(s.from, false)
			e.spare = append(e.spare, content[at:from]...)
			e.spare = put(e.spare, text[s.from:s.to])
			at = walk.to(s.to, true)
		}
		e.spare = append(e.spare, content[at:]...)
	}
	e.content, e.spare = e.spare, e.content
	return e.content
}

// unescaper finds places of a text in the content of the string that it is of.
type unescaper struct {
	content []byte
	plain   bool // nothing is escaped
	at, of  int  // a place in content, and the same in the text
}

// to returns the index of the content, which has escapes, for place, an index of the text without
// escapes. If place is within what an escape stands for, it is that of the escape, or, with behind,
// that after it. Calls have to come in the order of the places.
func (u *unescaper) to(place int, behind bool) int {
	if u.plain {
		return place
	}
	for u.of < place {
		raw, n := unit(u.content[u.at:])
		if !behind && u.of+n > place {
			break
		}
		u.at, u.of = u.at+raw, u.of+n
	}
	return u.at
}

// unit returns the length of the byte or escape at the beginning of content (raw), and the length
// of the text that it stands for. Two \u escapes that are one surrogate pair count as one.
func unit(content []byte) (raw, text int) {
	if content[0] != '\\' {
		return 1, 1
	}
	var room [8]byte
	plain, raw, _ := jsontext.AppendEscape(room[:0], content)
	return raw, len(plain)
}

// appendEscaped appends text escaped for a JSON string with quotes of either kind.
func appendEscaped(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == '\'':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// isNumber reports whether text is a number as JSON writes it: a value of JSON that begins as no
// other one does, and has no white space around it.
func isNumber(text []byte) bool {
	return len(text) > 0 && (text[0] == '-' || isDigit(text[0])) && isDigit(text[len(text)-1]) && json.Valid(text)
}

// row redacts the fields of a delimited record. Columns are counted from 1.
func (e *Editor) row(row []byte) {
	e.shifted = e.isShifted(row)
	for i, column := 0, 1; ; column++ {
		end, quoted := fieldEnd(row, i, e.sep)
		e.field(row, i, end, column, quoted)
		if end == len(row) {
			return
		}
		i = end + 1
	}
}

// isShifted reports whether the fields of a row cannot be assigned to columns, because there are
// more or fewer than in the header, or fewer than rules name. It is false if no rule is about a
// column.
func (e *Editor) isShifted(row []byte) bool {
	most, asked := 0, false
	for k := range e.set.redact {
		most, asked = max(most, e.set.redact[k].column), asked || e.set.redact[k].column != 0
	}
	if !asked {
		return false
	}
	fields := 1
	for i, _ := fieldEnd(row, 0, e.sep); i < len(row); i, _ = fieldEnd(row, i+1, e.sep) {
		fields++
	}
	return fields < most || e.columns.all > 0 && fields != e.columns.all
}

// field redacts row[from:to], the field of the column with this number; quoted says that it is in
// quotes. The changed field gets quotes if it needs them.
func (e *Editor) field(row []byte, from, to, column int, quoted bool) {
	text := bare(row[from:to], quoted)
	changed := false
	for k := range e.set.redact {
		r := &e.set.redact[k]
		if r.column != 0 && !e.isColumn(r, column) {
			continue
		}
		was := text
		if text = e.apply(r, text, valueText, false); bytes.Equal(was, text) {
			text = was
			continue
		}
		if e.acted[k], changed = true, true; r.whole() {
			break
		}
	}
	if !changed {
		return
	}
	alone := from == 0 && to == len(row) // the only field: an empty one would make a blank line
	if quoted || len(text) == 0 && alone || bytes.IndexByte(text, e.sep) >= 0 || bytes.ContainsAny(text, "\"\r\n") {
		text = slices.Concat([]byte{'"'}, bytes.ReplaceAll(text, []byte{'"'}, []byte(`""`)), []byte{'"'})
	}
	e.replace(row, from, to, text...)
}

// isColumn reports whether a rule is about the column of this number. If the columns are
// not known, every column may be meant.
func (e *Editor) isColumn(r *redaction, column int) bool {
	if e.shifted {
		return true
	}
	of := e.columns.of(r.column)
	return len(of) == 0 || slices.Contains(of, column) // where none is known, it may be any
}

// SetHeader says which columns the rows from here on have: the header without its line end;
// nil: it is not known. If the header is not known or has no column of a name, a rule about
// that name is about every column, so that nothing is shown that the rule hides.
func (e *Editor) SetHeader(header []byte) { e.columns.set(e.set, header, e.sep) }
