package reply

import (
	"cmp"
	"encoding/json"
	markup "html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxMessage bounds what is kept of a stranger's words, in bytes.
const MaxMessage = 1024

// Printable returns s as one line that is safe on a terminal and in a log. Control characters,
// direction marks and invalid UTF-8 are escaped as in Go. What exceeds limit bytes is cut off and
// replaced by "…".
func Printable(s string, limit int) string {
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

// Redact replaces the secrets in s, in all forms in which servers echo them, and everything that looks
// like a token, by [secret].
func Redact(s string, secrets ...string) string {
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		for _, form := range escapedForms(secret) {
			s = strings.ReplaceAll(s, form, "[secret]")
		}
		s = strings.ReplaceAll(s, secret, "[secret]")
	}
	return tokenShaped.ReplaceAllString(s, "[secret]")
}

// Clean returns s as Printable does, without space at its ends and without the secrets.
func Clean(s string, limit int, secrets ...string) string {
	return Printable(Redact(strings.TrimSpace(s), secrets...), limit)
}

// lowerHex is the other way in which a percent-encoding is written.
var lowerHex = regexp.MustCompile(`%[0-9A-F]{2}`)

// escapedForms returns how a secret looks in a URL-encoded form, in a URL path, in JSON, in HTML
// and in a quoted Go string. The longest form comes first, and forms that equal the secret are left
// out.
func escapedForms(secret string) []string {
	form, path := url.QueryEscape(secret), url.PathEscape(secret)
	all := []string{form, path, strings.ReplaceAll(form, "+", "%20"), strings.Trim(strconv.Quote(secret), `"`), markup.EscapeString(secret)}
	if raw, err := json.Marshal(secret); err == nil {
		all = append(all, string(raw[1:len(raw)-1]))
	}
	for _, f := range all[:3] {
		all = append(all, lowerHex.ReplaceAllStringFunc(f, strings.ToLower))
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.DeleteFunc(slices.Compact(all), func(f string) bool { return f == secret })
}

// QuoteName shows a name in an error, whatever is in it and however long.
func QuoteName(name string) string { return `"` + Printable(name, 64) + `"` }
