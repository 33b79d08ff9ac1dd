package emulator

import (
	"bytes"
	"encoding/json"
)

// object returns line as strict JSON, and whether the service would accept it as one JSON object.
// Besides RFC 8259 the service accepts comments and single-quoted strings. Strict input is returned as
// it is, without a copy.
func object(line []byte) (strict []byte, ok bool) {
	if !json.Valid(line) {
		line = relax(line)
		if !json.Valid(line) {
			return nil, false
		}
	}
	trimmed := bytes.TrimLeft(line, " \t\r\n")
	return line, trimmed[0] == '{'
}

// relax rewrites each comment as a space and each single-quoted string as a double-quoted one. It does
// not validate: its result may be as invalid as its input.
func relax(in []byte) []byte {
	out := make([]byte, 0, len(in)+8)
	for len(in) > 0 {
		n := 1
		switch c := in[0]; {
		case c == '"' || c == '\'':
			n = stringEnd(in)
			out = appendQuoted(out, in[:n])
		case bytes.HasPrefix(in, []byte("//")): // up to the end of the line, and in is one line
			n = len(in)
			out = append(out, ' ')
		case bytes.HasPrefix(in, []byte("/*")):
			n = len(in)
			if end := bytes.Index(in[2:], []byte("*/")); end >= 0 {
				n = end + 4
			}
			out = append(out, ' ')
		default:
			out = append(out, c)
		}
		in = in[n:]
	}
	return out
}

// stringEnd returns the length of the quoted string that in begins with, quotes included; the length
// of in when the string is not closed.
func stringEnd(in []byte) int {
	for i := 1; i < len(in); i++ {
		switch in[i] {
		case '\\':
			i++
		case in[0]:
			return i + 1
		}
	}
	return len(in)
}

// appendQuoted appends the quoted string s to out, in double quotes whatever quotes it had.
func appendQuoted(out, s []byte) []byte {
	if s[0] == '"' {
		return append(out, s...)
	}
	out = append(out, '"')
	inner := bytes.TrimSuffix(s[1:], []byte("'"))
	for i := 0; i < len(inner); i++ {
		switch {
		case inner[i] == '\\' && i+1 < len(inner):
			if i++; inner[i] != '\'' { // in double quotes, ' is not escaped
				out = append(out, '\\')
			}
		case inner[i] == '"':
			out = append(out, '\\')
		}
		out = append(out, inner[i])
	}
	return append(out, '"')
}
