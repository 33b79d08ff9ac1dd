package kusto

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessage bounds what is kept of a stranger's words, in bytes.
const maxMessage = 1024

// printable makes one line of s that is safe on a terminal and in a log:
// control characters, direction marks and broken UTF-8 are escaped as Go would
// write them, and what goes beyond limit bytes is cut off.
func printable(s string, limit int) string {
	var b strings.Builder
	for i, size := 0, 0; i < len(s); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(s[i:])
		part := s[i : i+size]
		if !unicode.IsPrint(r) || (r == utf8.RuneError && size == 1) {
			part = strings.Trim(strconv.Quote(part), `"`)
		}
		if b.Len()+len(part) > limit {
			return b.String() + "…"
		}
		b.WriteString(part)
	}
	return b.String()
}

// tokenShaped finds what looks like a bearer token: a server may echo headers.
var tokenShaped = regexp.MustCompile(`(?i:bearer[\s:=]+)[\w.~+/-]{20,}=*|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?`)

// redact takes secrets, and everything shaped like a token, out of s.
func redact(s string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[secret]")
		}
	}
	return tokenShaped.ReplaceAllString(s, "[secret]")
}
