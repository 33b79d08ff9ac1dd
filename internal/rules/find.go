package rules

import (
	"bytes"
	"encoding/hex"
	"unicode"
	"unicode/utf8"
)

// A finder returns what is the first in a text of those of a kind that begin at from or
// behind it, or none. Those of one finder begin one behind the other, and may overlap.
type finder func(text []byte, from int) hit

// hit is what a finder found; from there on next it looks for the next.
type hit struct {
	segment
	next int
}

var none = hit{segment: segment{from: -1}}

// presets are the finders that have names. Each finds rather too much than too little.
var presets = map[string]finder{"email": findEmail, "ipv4": findIPv4, "bearer": findBearer, "card": findCard}

// hasHint is a fast test for the preset with this name: false means that it finds nothing in any
// value of a record without \u escapes. Addresses and numbers have no character that needs an
// escape.
func hasHint(name string, rec []byte) bool {
	if name == "bearer" {
		return indexFold(rec, "bearer") >= 0
	}
	return presets[name](rec, 0).from >= 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isLocal reports whether c can be before the @ of an address.
func isLocal(c byte) bool {
	return isLetter(c) || isDigit(c) || c >= 0x80 || c == '.' || c == '_' || c == '%' || c == '+' || c == '-'
}

// isDomain reports whether c can be behind the @ of an address.
func isDomain(c byte) bool { return isLetter(c) || isDigit(c) || c >= 0x80 || c == '-' || c == '.' }

// wideAt is U+FF20, which stands for @ in texts of full-width signs.
const wideAt = "\uff20"

// atWindow is how far the next sign of one kind is looked for before those of others are.
const atWindow = 4 << 10

// nextAt returns the index of the next sign for "at" from i on (@, %40 or the full-width @), and
// its length; a length of 0: there is none. It searches for all three in windows of atWindow
// bytes, so that a sign that is rare is not looked for in all of the text each time.
func nextAt(text []byte, i int) (at, n int) {
	for ; i < len(text); i += atWindow {
		at = min(i+atWindow, len(text))
		if k := bytes.IndexByte(text[i:at], '@'); k >= 0 {
			at, n = i+k, 1
		}
		for _, sign := range []string{"%40", wideAt} {
			if k := bytes.Index(text[i:min(at+len(sign)-1, len(text))], []byte(sign)); k >= 0 {
				at, n = i+k, len(sign)
			}
		}
		if n > 0 {
			return at, n
		}
	}
	return 0, 0
}

// findEmail finds the first email address that begins at from or later; its domain has a dot and
// ends in two letters or more. The hit says where the search for the next one begins. none: there
// is no address.
func findEmail(text []byte, from int) hit {
	before := from // index after the last sign for @
	run := from    // all bytes from here to before can be in the part before the @
	for {
		at, n := nextAt(text, before)
		if n == 0 {
			return none
		}
		start := at
		for start > before && (isLocal(text[start-1]) || text[start-1] == '\'') {
			start--
		}
		if start == before { // the sign before, such as %40, can be in that part too
			start = run
		}
		for start < at && text[start] == '\'' { // a quote around the address
			start++
		}
		before, run = at+n, start
		if n == 1 {
			run = before
		}
		if start == at {
			continue
		}
		end := -1
		for i := before; i < len(text) && isDomain(text[i]) && !bytes.HasPrefix(text[i:], []byte(wideAt)); i++ {
			if text[i] != '.' || i == before {
				continue
			}
			last := i + 1
			for last < len(text) && (isLetter(text[last]) || text[last] >= 0x80) {
				last++
			}
			if last-i > 2 {
				end = last
			}
		}
		if end >= 0 {
			return hit{segment{start, end}, before}
		}
	}
}

// findIPv4 finds the first IPv4 address that begins at from or later: four numbers up to 255 with
// dots between them, and no digit before or after. none: there is no address.
func findIPv4(text []byte, from int) hit {
	for dot := from; ; dot++ {
		n := bytes.IndexByte(text[dot:], '.')
		if n < 0 {
			return none
		}
		dot += n
		start := dot
		for start > from && isDigit(text[start-1]) {
			start--
		}
		if start > 0 && isDigit(text[start-1]) { // a digit before from, of what was found before
			continue
		}
		if end := behindIPv4(text, start); end > 0 {
			return hit{segment{start, end}, end}
		}
	}
}

// behindIPv4 returns the index after the address that begins at i; 0: there is none.
func behindIPv4(text []byte, i int) int {
	for part := range 4 {
		if part > 0 {
			if i == len(text) || text[i] != '.' {
				return 0
			}
			i++
		}
		value, digits := 0, 0 // of this number
		for i < len(text) && isDigit(text[i]) {
			if value, digits = 10*value+int(text[i]-'0'), digits+1; digits > 3 {
				return 0
			}
			i++
		}
		if digits == 0 || value > 255 {
			return 0
		}
	}
	return i
}

// findBearer finds the first token after the word bearer, in any letter case, at from or later.
// If the token itself ends in the word bearer or token, what follows belongs to it. none: there
// is no token.
func findBearer(text []byte, from int) hit {
	const word = "bearer"
	for i := from; ; {
		n := indexFold(text[i:], word)
		if n < 0 {
			return none
		}
		i += n + len(word)
		start := behindParting(text, i)
		end := tokenEnd(text, start)
		if start == i || end == start { // nothing between word and token, or no token
			continue
		}
		for last := i; endsInWord(text[last:end]); {
			next := behindParting(text, end)
			to := tokenEnd(text, next)
			if next == end || to == next || text[next] == ',' {
				break
			}
			last, end = next, to
		}
		return hit{segment{start, end}, end}
	}
}

// behindParting returns the index after the characters at i that can separate a word from its
// token: white space, quotes, colons and the like, also written as %XX.
func behindParting(text []byte, i int) int {
	for i < len(text) {
		c, n := text[i], 1
		if c == '%' {
			if c, n = fromHex(text[i+1:]), 3; c == 0 {
				return i
			}
		}
		if bytes.IndexByte([]byte(":=+\"'`\\"), c) < 0 {
			if n > 1 {
				if !isSpace(c) {
					return i
				}
			} else if n = spaceLen(text[i:]); n == 0 {
				return i
			}
		}
		i += n
	}
	return i
}

// tokenEnd returns the index after the token that begins at i; i itself if there is none.
// Backslashes before a closing quote do not belong to the token.
func tokenEnd(text []byte, i int) int {
	end := i
	for end < len(text) && bytes.IndexByte([]byte("\"'`)]};<"), text[end]) < 0 && spaceLen(text[end:]) == 0 {
		end++
	}
	if end < len(text) && bytes.IndexByte([]byte("\"'`"), text[end]) >= 0 {
		for end > i && text[end-1] == '\\' {
			end--
		}
	}
	return end
}

// endsInWord reports whether a token ends in the word bearer or token, which another token may
// follow. Separators behind the word do not count.
func endsInWord(token []byte) bool {
	for {
		token = bytes.TrimRight(token, `:=+\`)
		n := len(token) - 3
		if n < 0 || token[n] != '%' || behindParting(token, n) == n { // no separator written as %XX
			break
		}
		token = token[:n]
	}
	for _, word := range []string{"bearer", "token"} {
		if n := len(token) - len(word); n >= 0 && bytes.EqualFold(token[n:], []byte(word)) {
			return true
		}
	}
	return false
}

// fromHex returns the byte for the two hexadecimal digits at the beginning of text; 0:
// there are none.
func fromHex(text []byte) byte {
	var one [1]byte
	if len(text) < 2 {
		return 0
	}
	if _, err := hex.Decode(one[:], text[:2]); err != nil {
		return 0
	}
	return one[0]
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// spaceLen returns the length of the white space character at the beginning of text; 0:
// there is none.
func spaceLen(text []byte) int {
	if text[0] < utf8.RuneSelf {
		if isSpace(text[0]) {
			return 1
		}
		return 0
	}
	if r, n := utf8.DecodeRune(text); unicode.IsSpace(r) {
		return n
	}
	return 0
}

// indexFold returns the first index of word, which is in lower case, in text, in any letter case;
// -1: it is not there.
func indexFold(text []byte, word string) int {
	small, large := bytes.IndexByte(text, word[0]), bytes.IndexByte(text, word[0]&^0x20)
	for small >= 0 || large >= 0 {
		next := &small
		if small < 0 || 0 <= large && large < small {
			next = &large
		}
		i := *next
		if len(text)-i < len(word) {
			return -1
		}
		if bytes.EqualFold(text[i:i+len(word)], []byte(word)) {
			return i
		}
		if *next = bytes.IndexByte(text[i+1:], text[i]); *next >= 0 {
			*next += i + 1
		}
	}
	return -1
}

// A card has so many digits.
const (
	leastCard = 13
	mostCard  = 19
)

// findCard finds the first payment card number that begins at from or later: 13 to 19 digits with
// a valid check digit, the first 2 to 6, optionally a space or hyphen between digits, and no
// digit before or after. Of those that begin at one place it takes the longest. none: there is no
// number.
func findCard(text []byte, from int) hit {
	for i := from; i+leastCard <= len(text); {
		// A number that begins from i on up to skip would contain this character.
		if skip := i + leastCard - 1; !isDigit(text[skip]) && text[skip] != ' ' && text[skip] != '-' {
			i = skip + 1
			continue
		}
		if '2' <= text[i] && text[i] <= '6' && (i == 0 || !isDigit(text[i-1])) {
			if end := behindCard(text, i); end > 0 {
				return hit{segment{i, end}, i + 1}
			}
		}
		i++
	}
	return none
}

// behindCard returns the index after the longest card number that begins at i; 0: there is
// none.
func behindCard(text []byte, i int) (end int) {
	sum, doubled, digits := 0, 0, 0 // doubled is sum with the other half of the digits doubled
	for ; i < len(text) && digits < mostCard; i++ {
		c := text[i]
		if !isDigit(c) {
			if c != ' ' && c != '-' || !isDigit(text[i-1]) {
				break
			}
			continue
		}
		v := int(c - '0')
		twice := 2 * v
		if twice > 9 {
			twice -= 9
		}
		// The last digit is not doubled: what is doubled changes with each digit.
		sum, doubled = doubled+v, sum+twice
		digits++
		if digits >= leastCard && sum%10 == 0 && (i+1 == len(text) || !isDigit(text[i+1])) {
			end = i + 1
		}
	}
	return end
}
